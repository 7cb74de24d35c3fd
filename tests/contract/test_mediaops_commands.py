"""The commands of ``airflow mediaops`` and ``python -m airflow_provider_mediaops``, each in a process of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.cli.commands import COMMANDS
from airflow_provider_mediaops.sandbox.books import plans
from tests.contract import fresh_python

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer

pytestmark = pytest.mark.long

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
def test_wrong_use_is_reported_with_its_exit_code(form: tuple[str, ...]) -> None:
    done = fresh_python.run(*form, "sandbox", "--port", "99999999")
    assert done.returncode == 2
    assert "99999999 is no port" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("sandbox")
def test_a_connection_is_checked(form: tuple[str, ...]) -> None:
    done = fresh_python.run(*form, "check", "mediaops_books_default", "--output", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["works"], document["plan"], document["quota"]["total"]) == (True, "pro", 50_000)
    assert plans.PRO.key not in done.stdout + done.stderr


@pytest.mark.parametrize("form", FORMS)
def test_a_connection_with_a_wrong_key_is_a_problem(
    form: tuple[str, ...], sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT"
    connection = json.loads(sandbox.connections()[variable])
    monkeypatch.setenv(variable, json.dumps({**connection, "password": "not-the-right-one"}))
    done = fresh_python.run(*form, "check", "mediaops_books_default")
    assert done.returncode == 1
    assert "the test failed" in done.stdout
    assert "not-the-right-one" not in done.stdout + done.stderr


@pytest.mark.usefixtures("airflow_db")
def test_a_connection_of_the_database_is_checked_outside_a_task(sandbox: SandboxServer) -> None:
    """With ``python -m`` too, and on Airflow 3.1, whose task SDK finds none of the database there."""
    connection = sandbox.connections()["AIRFLOW_CONN_MEDIAOPS_CLUSTER_DEFAULT"]
    added = fresh_python.run("-m", "airflow", "connections", "add", "stored_cluster", "--conn-json", connection)
    assert added.returncode == 0, added.stderr
    try:
        done = fresh_python.run("-m", PROVIDER, "check", "stored_cluster", "--output", "json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["version"].startswith("OpenSearch")
    finally:
        fresh_python.run("-m", "airflow", "connections", "delete", "stored_cluster")
