"""The declarations of the commands, in Airflow's command line and in our own."""

from __future__ import annotations

import argparse

import pytest

from airflow_provider_mediaops.cli.commands import COMMANDS, Command
from airflow_provider_mediaops.cli.run import main
from airflow_provider_mediaops.sandbox import __main__ as sandbox_program

each_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


@each_command
def test_each_command_has_help_that_argparse_and_rich_read_alike(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command.name, "--help"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert command.help
    for text in (command.description, *(argument.settings["help"] for argument in command.arguments)):
        assert text
        assert text in shown
        assert not {"%", "[", "]"} & set(command.help + text)


def test_wrong_use_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["no-such-command"])
    assert ended.value.code == 2
    assert "no-such-command" in capsys.readouterr().err


def test_the_sandbox_takes_the_options_of_its_own_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new one of the sandbox must not be missing here."""
    own: list[str] = []
    monkeypatch.setattr(argparse.ArgumentParser, "add_argument", lambda _, *names, **__: own.extend(names))
    with pytest.raises(SystemExit):
        sandbox_program.main(["--no-such-option"])
    monkeypatch.undo()
    (sandbox,) = (command for command in COMMANDS if command.name == "sandbox")
    assert [name for argument in sandbox.arguments for name in argument.names] == [
        name for name in own if name not in {"-h", "--help"}
    ]
