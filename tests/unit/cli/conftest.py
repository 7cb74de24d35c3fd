"""The streams of a command, and connections in the environment."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cli.commands import COMMANDS
from airflow_provider_mediaops.cli.program import parser
from airflow_provider_mediaops.cli.run import run
from airflow_provider_mediaops.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Ended:
    """
    What a command left.

    :param code: its exit code.
    :param output: what it wrote to the standard output.
    :param messages: what it wrote to the standard error.
    """

    code: int
    output: str
    messages: str

    @property
    def document(self) -> Any:
        """The document of ``--output json``."""
        return json.loads(self.output)


def command(*arguments: str, answer: str | None = None) -> Ended:
    """Run a command as ``python -m`` does; somebody sits at the terminal if there is an answer."""
    options = parser().parse_args(arguments)
    output, messages, answers = io.StringIO(), io.StringIO(), io.StringIO(answer)
    if answer is not None:
        answers.isatty = lambda: True  # type: ignore[method-assign]
    declared = next(each for each in COMMANDS if each.name == options.command)
    code = run(declared, options, Terminal(output, messages, answers))
    return Ended(code, output.getvalue(), messages.getvalue())


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Put connections into the environment, where there are no others."""
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CONN_")]:
        monkeypatch.delenv(name)

    def set_connection(conn_id: str, connection: str) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", connection)

    return set_connection
