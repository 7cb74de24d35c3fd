"""A newcomer does what docs/start.md says, line by line, on a real Airflow and with the sandbox as their services."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.processes import Processes
from tests.newcomer import start_page
from tests.newcomer.terminal import Terminal
from tests.system.running import wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.newcomer.start_page import Command, Step

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "start.md").read_text()
# The first block is that of the demo, which CI runs.
OWN = list(start_page.steps(PAGE))[1:]
# How long a newcomer looks again and again, on a machine that others keep busy.
PATIENCE_SECONDS = 1800.0


class Newcomer:
    """Somebody who types what the page says, in two terminals."""

    def __init__(self, terminal: Terminal, processes: Processes, folder: Path, environment: dict[str, str]) -> None:
        self._terminal = terminal
        self._processes = processes
        self._folder = folder
        self._environment = environment

    def do(self, step: Step) -> None:
        """Do what a block of the page says."""
        if step.language == "bash":
            missing = set(step.variables) - set(self._environment)
            assert step.variables
            assert not missing, f"Nobody gives values to {missing}."
        elif step.language == "python":
            assert step.file, f"The page does not say where this file goes:\n{step.content}"
            path = Path(step.file.replace("~", self._environment["HOME"], 1))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.content)
        elif step.is_in_a_second_terminal:
            log = self._folder.parent / "second_terminal.log"
            script = "set -e\n" + "\n".join(command.line for command in step.commands)
            self._processes.start(
                "The second terminal",
                ["bash", "-c", f"cd '{self._folder}'\n{script}"],
                env=self._environment,
                log=log,
            )
            wait_for(lambda: self._has_printed(log, step.commands[-1]), "the second terminal is ready", 1800)
        else:
            for command in step.commands:
                self._type(command, again=step.is_looked_at_again)

    def _has_printed(self, log: Path, command: Command) -> bool:
        self._processes.check()
        return all(start_page.shows(log.read_text(), line) for line in command.printed)

    def _type(self, command: Command, *, again: bool) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            output = self._terminal.type(command.line)
            missing = [line for line in command.printed if not start_page.shows(output, line)]
            if not missing:
                return
            self._processes.check()
            expired = not again or "failed" in output or time.monotonic() > deadline
            assert not expired, f"`{command.line}` does not print {missing}, but:\n{output}"
            time.sleep(5)


@pytest.fixture(scope="module")
def home(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Do all of the page, and return the home that it leaves."""
    folder = tmp_path_factory.mktemp("terminals") / "empty"
    folder.mkdir()
    with Processes(grace=30) as processes, Terminal(folder, environment, folder.parent / "terminal.log") as terminal:
        newcomer = Newcomer(terminal, processes, folder, environment)
        for step in OWN:
            newcomer.do(step)
    return Path(environment["HOME"])


def test_the_capture_has_its_page(home: Path) -> None:
    folder = home / "first_capture"
    assert (folder / "hot_threads.txt").read_text().startswith("::: {sandbox-")
    assert "<title>" in (folder / "hot_threads.html").read_text()


def test_the_export_has_all_subscriptions(home: Path) -> None:
    with (home / "first_export" / "subscriptions.csv").open(newline="") as table:
        assert len(list(csv.DictReader(table))) == 1234


def test_the_books_are_found(home: Path) -> None:
    rows = [json.loads(line) for line in (home / "first_books" / "books.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows] == ["found", "found"]


def test_the_package_is_that_of_the_wheel(home: Path, environment: dict[str, str]) -> None:
    """The checkout itself was out of reach, so nothing but the wheel has been tried."""
    installed = list(home.parent.parent.rglob("airflow-venv/lib/*/site-packages/airflow_provider_mediaops/__init__.py"))
    assert len(installed) == 1
    assert str(ROOT) not in environment["PYTHONPATH"]


def test_every_service_was_asked(home: Path, sandbox: SandboxServer) -> None:
    assert home.is_dir()
    assert {request.service for request in sandbox.state.requests} == {"cluster", "video", "books"}
