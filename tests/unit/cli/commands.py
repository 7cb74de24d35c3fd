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


def command(*arguments: object, stdin: bytes = b"") -> Ended:
    """Run a command that reads this from the standard input."""
    options = parser().parse_args(list(map(str, arguments)))
    output, messages = io.StringIO(), io.StringIO()
    declared = next(each for each in COMMANDS if each.name == options.command)
    given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    code = run(declared, options, Terminal(output, messages, given))
    return Ended(code, output.getvalue(), messages.getvalue())
