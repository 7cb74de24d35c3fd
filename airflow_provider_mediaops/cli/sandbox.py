"""``sandbox``: run the stand-in for the three services."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from airflow_provider_mediaops.cli.commands import SANDBOX

if TYPE_CHECKING:
    import argparse

    from airflow_provider_mediaops.cli.terminal import Terminal

# The provider must not depend on its stand-in, which is a program of its own.
_PROGRAM = "airflow_provider_mediaops.sandbox"


def run(options: argparse.Namespace, _: Terminal) -> NoReturn:
    """Become the program of the sandbox, with the options that were given."""
    names = [argument.names[0] for argument in SANDBOX.arguments]
    values = {name: getattr(options, name[2:].replace("-", "_")) for name in names}
    given = [f"{name}={value}" for name, value in values.items() if value is not None]
    os.execv(sys.executable, [sys.executable, "-m", _PROGRAM, *given])  # noqa: S606 - no shell is needed
