"""
Run a command: import its function, write its result, and turn errors into plain words and an exit code.

:func:`main` is the command line of ``python -m airflow_provider_mediaops``: for Airflow 3.1, whose own command line
takes no commands of providers, and for people without Airflow's database.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.cli.commands import COMMANDS, EPILOG, GROUP_HELP
from airflow_provider_mediaops.cli.terminal import Terminal
from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError

if TYPE_CHECKING:
    from airflow_provider_mediaops.cli.commands import Command
    from airflow_provider_mediaops.cli.terminal import Result

#: Nothing is wrong.
FINE = 0
#: A problem was found, or the command failed.
PROBLEM = 1
#: The command was used wrongly; argparse exits with the same code.
WRONG_USE = 2
#: What shells report of a program that Ctrl-C ended, and of one whose reader went away.
INTERRUPTED = 130
READER_GONE = 141

_PASSWORD = re.compile(r"://[^/:@\s]*:([^/\s]+)@")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit code."""
    options = parser().parse_args(arguments)
    return run(next(command for command in COMMANDS if command.name == options.command), options)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    program = argparse.ArgumentParser(
        prog="python -m airflow_provider_mediaops", description=f"{GROUP_HELP}.", epilog=EPILOG
    )
    program.add_argument("--version", action="version", version=f"airflow-provider-mediaops {__version__}")
    commands = program.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        of_command = commands.add_parser(
            command.name, help=command.help, description=command.description, epilog=EPILOG
        )
        for argument in command.arguments:
            of_command.add_argument(*argument.names, **argument.settings)
    return program


def run(command: Command, options: argparse.Namespace, terminal: Terminal | None = None) -> int:
    """Run a command, and return its exit code."""
    terminal = terminal or Terminal()
    terminal.hide(_passwords_in(options))
    try:
        module = importlib.import_module(f"airflow_provider_mediaops.cli.{command.name.replace('-', '_')}")
        with _logs_apart():
            result: Result = module.run(options, terminal)
        terminal.show(result, options.output)
    except BrokenPipeError:
        _drop_output()
        return READER_GONE
    except KeyboardInterrupt:
        terminal.say(f"{command.name}: stopped.", "warning")
        return INTERRUPTED
    except (MediaOpsError, ValueError, OSError) as error:
        terminal.say(f"{command.name}: {_in_words(error)}", "bad")
        return WRONG_USE if isinstance(error, InvalidArgumentError) else PROBLEM
    return PROBLEM if result.problem else FINE


def _passwords_in(options: argparse.Namespace) -> Iterator[str]:
    """Yield the passwords of paths such as ``s3://key:password@bucket``, which messages would repeat."""
    for value in vars(options).values():
        for text in value if isinstance(value, list) else [value]:
            yield from _PASSWORD.findall(str(text))


def _in_words(error: Exception) -> str:
    # The text of one from the system is "[Errno 2] No such file or directory: 'name'".
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def _drop_output() -> None:
    # Python flushes the standard output once more at the end, which would fail again, with a traceback.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def _logs_apart() -> Iterator[None]:
    """Keep the standard output free of log lines, which Airflow 3.1 and 3.2 write there: it is the result's."""
    moved = [
        (handler, handler.setStream(sys.stderr))
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stdout
    ]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        for handler, stream in moved:
            handler.setStream(stream)
