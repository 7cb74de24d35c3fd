"""The files that a command is given: local paths, addresses on object stores, and ``-`` for the standard input."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from airflow_provider_mediaops.cli.terminal import Terminal

#: The name of the standard input, and of the standard output, among files.
STANDARD_INPUT = STANDARD_OUTPUT = "-"


def input_bytes(terminal: Terminal) -> BinaryIO:
    """Return the standard input. A person at a terminal is shown how to end it."""
    if terminal.answers.isatty():
        terminal.say("Reading the standard input: Ctrl-D at the beginning of a line ends it.")
    stream: BinaryIO | None = getattr(terminal.answers, "buffer", None)
    return stream or io.BytesIO(terminal.answers.read().encode("utf-8", "surrogateescape"))


def absolute_path(file: str) -> str:
    """Return the path of a file as tasks take it: Airflow 3.1 takes a relative one for one in the root folder."""
    return file if "://" in file else str(Path(file).expanduser().absolute())
