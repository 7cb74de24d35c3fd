"""Run a command as `python -m` does, with streams in memory."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

from airflow_provider_mediaops.cli.commands import COMMANDS
from airflow_provider_mediaops.cli.run import parser, run
from airflow_provider_mediaops.cli.terminal import Terminal


@dataclass(frozen=True)
class Ended:
    """
    What a command left.

    :param output: what it wrote to the standard output.
    :param messages: what it wrote to the standard error.
    """

    code: int
    output: str
    messages: str

    @property
    def document(self) -> Any:
        """The document of `--output json`."""
        return json.loads(self.output)

    def row(self, *starts: str) -> list[list[str]]:
        """The lines of tables that begin with these words, with their cells."""
        lines = [[cell for cell in line.split("  ") if cell] for line in self.output.splitlines()]
        return [[cell.strip() for cell in line] for line in lines if line and line[0].strip() in starts]


def command(*arguments: object, answer: str | None = None, stdin: bytes = b"") -> Ended:
    """
    Run a command.

    :param answer: what somebody types at the terminal; None if nobody sits there.
    :param stdin: the standard input, if nobody sits there.
    """
    options = parser().parse_args(list(map(str, arguments)))
    typed = stdin if answer is None else answer.encode()
    output, messages, answers = io.StringIO(), io.StringIO(), io.TextIOWrapper(io.BytesIO(typed), encoding="utf-8")
    if answer is not None:
        answers.isatty = lambda: True  # type: ignore[method-assign]
    declared = next(each for each in COMMANDS if each.name == options.command)
    code = run(declared, options, Terminal(output, messages, answers))
    return Ended(code, output.getvalue(), messages.getvalue())
