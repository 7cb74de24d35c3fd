"""How a command ends: its exit code, and its errors in plain words."""

from __future__ import annotations

import argparse
import io
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_mediaops.cli import check
from airflow_provider_mediaops.cli.commands import Command
from airflow_provider_mediaops.cli.run import run
from airflow_provider_mediaops.cli.terminal import Line, Result, Terminal
from airflow_provider_mediaops.exceptions import AuthenticationError, InvalidArgumentError, StorageError

COMMAND = Command("check", "", "", ())
ended_by: Callable[[], Result]


@pytest.fixture(autouse=True)
def _ends_in_that_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(_: argparse.Namespace, terminal: Terminal) -> Result:
        terminal.hide(["s3cr3t-key"])
        return ended_by()

    monkeypatch.setattr(check, "run", chosen)


class Closed(io.StringIO):
    """A pipe whose reader went away."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def ran(way: Callable[[], Result], output: io.StringIO | None = None) -> tuple[int, str, str]:
    """Run a command that ends in this way; give its exit code and what it wrote."""
    global ended_by  # noqa: PLW0603 - of the command that is run
    ended_by = way
    output, messages = output or io.StringIO(), io.StringIO()
    code = run(COMMAND, argparse.Namespace(output="text"), Terminal(output, messages))
    return code, output.getvalue(), messages.getvalue()


def raising(error: BaseException) -> Callable[[], Result]:
    def way() -> Result:
        raise error

    return way


@pytest.mark.parametrize("problem", [False, True])
def test_a_result_is_shown_and_a_problem_has_an_exit_code(*, problem: bool) -> None:
    assert ran(lambda: Result(None, [Line("found")], problem=problem)) == (int(problem), "found\n", "")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InvalidArgumentError("no such form"), 2, "check: no such form\n"),
        (AuthenticationError("refused s3cr3t-key"), 1, "check: refused ***\n"),
        (ValueError("no JSON"), 1, "check: no JSON\n"),
        (
            FileNotFoundError(2, "No such file or directory", "list.csv"),
            1,
            "check: list.csv: No such file or directory\n",
        ),
        (OSError("no filesystem"), 1, "check: no filesystem\n"),
        (KeyboardInterrupt(), 130, "check: stopped.\n"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_an_error_is_reported_in_plain_words(error: BaseException, code: int, message: str) -> None:
    assert ran(raising(error)) == (code, "", message)


def test_an_error_of_the_program_itself_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        ran(raising(ZeroDivisionError()))


def test_the_password_of_a_path_is_in_nothing_that_is_said() -> None:
    global ended_by  # noqa: PLW0603 - of the command that is run
    path = "s3://key:hunter2@bucket/books.jsonl"
    ended_by = raising(StorageError(f"{path} cannot be read."))
    messages = io.StringIO()
    options = argparse.Namespace(output="text", paths=[path], delete=False)

    assert run(COMMAND, options, Terminal(io.StringIO(), messages)) == 1
    assert "s3://key:***@bucket/books.jsonl cannot be read." in messages.getvalue()


def test_a_reader_that_went_away_ends_the_command_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "stdout").open("w") as stdout:
        # What is written from now on goes nowhere; pytest needs its own standard output.
        monkeypatch.setattr(sys, "stdout", stdout)
        code, _, messages = ran(lambda: Result(None, [Line("fine")]), Closed())
        stdout.write("written at the end of the process")
    assert (code, messages) == (141, "")
    assert (tmp_path / "stdout").read_text() == ""


def test_log_lines_and_prints_of_libraries_stay_out_of_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.StreamHandler(sys.stdout)
    root = logging.getLogger()
    root.addHandler(handler)

    def way() -> Result:
        root.warning("a log line")
        print("a print")  # noqa: T201 - as a library may do
        return Result(None)

    try:
        assert ran(way) == (0, "", "")
        assert handler.stream is sys.stdout
    finally:
        root.removeHandler(handler)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "a log line\na print\n" in captured.err
