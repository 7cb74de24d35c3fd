"""The commands of ``airflow mediaops`` and ``python -m airflow_provider_mediaops``, each in a process of its own."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.cli.commands import COMMANDS
from tests.contract import fresh_python

PROVIDER = "airflow_provider_mediaops"
in_airflow = pytest.mark.airflow(">=3.2")
FORMS = [
    pytest.param(("-m", "airflow", "mediaops"), marks=in_airflow, id="airflow mediaops"),
    pytest.param(("-m", PROVIDER), id="python -m"),
]


@in_airflow
def test_airflow_loads_five_small_modules_for_its_command_line() -> None:
    """Every `airflow` command pays for them; which modules these are does not depend on how busy the machine is."""
    loaded = fresh_python.result_of(
        "import sys\n"
        "from airflow.cli import cli_parser\n"
        "cli_parser.get_parser().format_help()\n"
        f"result = sorted(name for name in sys.modules if name.startswith('{PROVIDER}'))\n"
    )
    assert loaded == [
        PROVIDER,
        f"{PROVIDER}.cli",
        f"{PROVIDER}.cli.commands",
        f"{PROVIDER}.connection_fields",
        f"{PROVIDER}.get_provider_info",
    ]


def test_declaring_the_commands_imports_nothing() -> None:
    loaded = fresh_python.result_of(
        "import __future__, sys, typing\n"
        "before = set(sys.modules)\n"
        f"import {PROVIDER}.cli.commands\n"
        "result = sorted(set(sys.modules) - before)\n"
    )
    assert loaded == [PROVIDER, f"{PROVIDER}.cli", f"{PROVIDER}.cli.commands"]


@in_airflow
def test_airflow_lists_the_commands() -> None:
    done = fresh_python.run("-m", "airflow", "mediaops", "--help")
    assert done.returncode == 0, done.stderr
    assert [command.name for command in COMMANDS if command.help not in " ".join(done.stdout.split())] == []


def test_our_own_program_lists_the_commands_without_airflow() -> None:
    script = (
        "import contextlib, io, sys\n"
        f"from {PROVIDER}.cli.program import main\n"
        "shown = io.StringIO()\n"
        "with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):\n"
        "    main(['--help'])\n"
        "result = [shown.getvalue(), 'airflow' in sys.modules]\n"
    )
    shown, with_airflow = fresh_python.result_of(script)
    assert [command.name for command in COMMANDS if command.help not in " ".join(shown.split())] == []
    assert not with_airflow


def test_the_version_is_shown() -> None:
    assert fresh_python.run("-m", PROVIDER, "--version").stdout == f"airflow-provider-mediaops {__version__}\n"


@pytest.mark.parametrize("form", FORMS)
def test_wrong_use_is_told_with_its_exit_code(form: tuple[str, ...]) -> None:
    done = fresh_python.run(*form, "sandbox", "--port", "99999999")
    assert done.returncode == 2
    assert "99999999 is no port" in done.stderr
    assert "Traceback" not in done.stderr
