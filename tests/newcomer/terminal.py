"""A terminal in which a newcomer types: one shell, whose variables and folder stay from line to line."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from scripts.processes import tail

if TYPE_CHECKING:
    from typing_extensions import Self

SECONDS = 1800.0


class Terminal:
    """
    A shell that runs for as long as its ``with`` block lasts.

    :param log: the file for all that is printed in it.
    """

    def __init__(self, folder: Path, env: Mapping[str, str], log: Path) -> None:
        self._log = log
        self._output = log.open("wb")
        self._shell = subprocess.Popen(
            ["/bin/bash", "--noprofile", "--norc"],
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shell.kill()
        self._shell.communicate(timeout=60)  # closes its input as well
        self._output.close()

    def type(self, line: str) -> str:
        """Type a line, and wait for its end."""
        mark = uuid.uuid4().hex
        before = self._log.stat().st_size
        assert self._shell.stdin is not None
        # What a command reads from a terminal is not the next line of the page.
        self._shell.stdin.write(f"{{ {line}\n}} < /dev/null; echo {mark} $?\n".encode())
        self._shell.stdin.flush()
        deadline = time.monotonic() + SECONDS
        while True:
            printed = self._log.read_bytes()[before:].decode(errors="replace")
            if f"{mark} " in printed and printed.endswith("\n"):
                break
            assert self._shell.poll() is None, f"The shell has ended:\n{tail(self._log)}"
            assert time.monotonic() < deadline, f"`{line}` has not ended after {SECONDS:.0f} s:\n{tail(self._log)}"
            time.sleep(0.1)
        output, _, code = printed.rpartition(f"{mark} ")
        assert code.strip() == "0", f"`{line}` failed with {code.strip()}:\n{output}"
        return output
