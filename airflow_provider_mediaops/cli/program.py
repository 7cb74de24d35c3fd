"""
The command line of ``python -m airflow_provider_mediaops``.

It is for Airflow 3.1, whose own command line takes no commands of providers, and for people without Airflow's database.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.cli.commands import COMMANDS, EPILOG, GROUP_HELP, arguments_of
from airflow_provider_mediaops.cli.run import run

if TYPE_CHECKING:
    from collections.abc import Sequence


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
        for argument in arguments_of(command):
            of_command.add_argument(*argument.names, help=argument.help, **argument.settings)
    return program
