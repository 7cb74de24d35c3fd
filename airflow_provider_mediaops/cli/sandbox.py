"""``sandbox``: run the stand-in for the three services."""

from __future__ import annotations

import contextlib
import runpy
import sys
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cli.commands import SANDBOX
from airflow_provider_mediaops.cli.terminal import Result

if TYPE_CHECKING:
    import argparse

    from airflow_provider_mediaops.cli.terminal import Terminal

# The provider must not depend on its stand-in, so it is run as the program that it is, and not imported.
_PROGRAM = "airflow_provider_mediaops.sandbox"


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """Run the sandbox until Ctrl-C or SIGTERM. The lines that Airflow needs go to the standard output."""
    arguments = sys.argv
    sys.argv = [_PROGRAM, *program_arguments(options)]
    try:
        with contextlib.redirect_stdout(terminal.output):
            runpy.run_module(_PROGRAM, run_name="__main__")
    finally:
        sys.argv = arguments
    return Result(None)


def program_arguments(options: argparse.Namespace) -> list[str]:
    """Return the arguments of the sandbox's own command line, without the options that were not given."""
    given = [(argument.names[0], argument.names[0][2:].replace("-", "_")) for argument in SANDBOX.arguments]
    return [f"{name}={value}" for name, field in given if (value := getattr(options, field)) is not None]
