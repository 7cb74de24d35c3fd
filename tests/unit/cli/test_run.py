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
from airflow_provider_mediaops.cli.run import main, run
from airflow_provider_mediaops.cli.terminal import Line, Result, Terminal
from airflow_provider_mediaops.exceptions import AuthenticationError, InvalidArgumentError, StorageError

Ran = Callable[..., tuple[int, str, str]]


class Closed(io.StringIO):
    """A pipe whose reader went away."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Run a command that gives a result or raises an error; return its exit code and what it wrote."""

    def run_so(
        way: Result | BaseException | Callable[[], Result], output: io.StringIO | None = None, **options: object
    ) -> tuple[int, str, str]:
        def command(_: argparse.Namespace, terminal: Terminal) -> Result:
            terminal.hide(["s3cr3t-key"])
            if isinstance(way, BaseException):
                raise way
            return way if isinstance(way, Result) else way()

        monkeypatch.setattr(check, "run", command)
        written, messages = output or io.StringIO(), io.StringIO()
        given = argparse.Namespace(output="text", **options)
        code = run(Command("check", "", "", ()), given, Terminal(written, messages))
        return code, written.getvalue(), messages.getvalue()

    return run_so


@pytest.mark.parametrize("problem", [False, True])
def test_a_result_is_shown_and_a_problem_has_an_exit_code(ran: Ran, *, problem: bool) -> None:
    assert ran(Result(None, [Line("found")], problem=problem)) == (int(problem), "found\n", "")


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
def test_an_error_is_reported_in_plain_words(ran: Ran, error: BaseException, code: int, message: str) -> None:
    assert ran(error) == (code, "", message)


def test_an_error_of_the_program_itself_keeps_its_traceback(ran: Ran) -> None:
    with pytest.raises(ZeroDivisionError):
        ran(ZeroDivisionError())


def test_the_password_of_a_path_is_in_nothing_that_is_said(ran: Ran) -> None:
    path = "s3://key:hunter2@bucket/books.jsonl"
    code, _, messages = ran(StorageError(f"{path} cannot be read."), paths=[path], delete=False)
    assert (code, messages) == (1, "check: s3://key:***@bucket/books.jsonl cannot be read.\n")


def test_a_reader_that_went_away_ends_the_command_in_silence(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "stdout").open("w") as stdout:
        # What is written from now on goes nowhere; pytest needs its own standard output.
        monkeypatch.setattr(sys, "stdout", stdout)
        code, _, messages = ran(Result(None, [Line("fine")]), Closed())
        stdout.write("written at the end of the process")
    assert (code, messages) == (141, "")
    assert (tmp_path / "stdout").read_text() == ""


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_stream_that_the_shell_closed_does_not_stop_a_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, closed: str
) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("9780140449136\n")
    with monkeypatch.context() as without:
        without.setattr(sys, closed, None)
        assert main(["isbn", str(listed)]) == 0


def test_a_result_is_written_whole_in_any_encoding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("9780140449136\n978\u20ac\n", encoding="utf-8")
    written = io.BytesIO()
    with monkeypatch.context() as ascii_only:
        ascii_only.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
        assert main(["isbn", str(listed)]) == 1
        shown = written.getvalue().decode("ascii")
    assert "978\\u20ac" in shown
    assert "Cost" in shown


def test_log_lines_and_prints_of_libraries_stay_out_of_the_result(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
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
