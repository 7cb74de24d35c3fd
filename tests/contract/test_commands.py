"""The provider on Airflow's own command line, and its commands with and without Airflow, in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.cli.commands import COMMANDS
from airflow_provider_mediaops.sandbox import books
from tests.contract import fresh_python

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer

pytestmark = pytest.mark.long

NAME, PROVIDER = "airflow-provider-mediaops", "airflow_provider_mediaops"
REPORT = Path(__file__).parents[1] / "data" / "hot_threads" / "opensearch-3.8.0-cpu.txt"
in_airflow = pytest.mark.airflow(">=3.2")
FORMS = [
    pytest.param(("-m", "airflow", "mediaops"), marks=in_airflow, id="airflow mediaops"),
    pytest.param(("-m", PROVIDER), id="python -m"),
]


class TestAirflow:
    def test_shows_where_rates_are_kept(self, tmp_path: Path) -> None:
        asked = ("-m", "airflow", "config", "get-value", "mediaops", "rate_limit_store")
        done = fresh_python.run(*asked, env={"AIRFLOW_HOME": str(tmp_path)})
        assert done.stdout.splitlines()[-1] == f"sqlite:///{tmp_path}/mediaops_rate_limits.db", done.stderr

    @in_airflow
    def test_loads_five_small_modules_for_its_command_line(self) -> None:
        """Every `airflow` command pays for them; which these are does not depend on how busy the machine is."""
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

    @in_airflow
    def test_lists_the_commands(self) -> None:
        done = fresh_python.run("-m", "airflow", "mediaops", "--help")
        assert done.returncode == 0, done.stderr
        assert [command.name for command in COMMANDS if command.help not in " ".join(done.stdout.split())] == []


class TestWithoutAirflow:
    """Importing Airflow takes longer than all the rest."""

    def test_our_own_program_lists_the_commands_and_reads_a_report(self) -> None:
        shown, code, with_airflow, with_requests = fresh_python.result_of(
            "import contextlib, io, sys\n"
            f"from {PROVIDER}.cli.run import main\n"
            "shown = io.StringIO()\n"
            "with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):\n"
            "    main(['--help'])\n"
            "with contextlib.redirect_stdout(io.StringIO()):\n"
            f"    code = main(['hot-threads', {str(REPORT)!r}])\n"
            "result = [shown.getvalue(), code, 'airflow' in sys.modules, 'requests' in sys.modules]\n"
        )
        assert [command.name for command in COMMANDS if command.help not in " ".join(shown.split())] == []
        assert (code, with_airflow, with_requests) == (0, False, False)

    def test_the_version_is_shown(self) -> None:
        assert fresh_python.run("-m", PROVIDER, "--version").stdout == f"{NAME} {__version__}\n"


@pytest.mark.parametrize("form", FORMS)
class TestBothForms:
    def test_wrong_use_is_reported_with_its_exit_code(self, form: tuple[str, ...]) -> None:
        done = fresh_python.run(*form, "sandbox", "--port", "99999999")
        assert done.returncode == 2
        assert "99999999 is not a port" in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.usefixtures("sandbox")
    def test_a_connection_is_checked(self, form: tuple[str, ...]) -> None:
        done = fresh_python.run(*form, "check", "mediaops_books_default", "--output", "json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert (document["works"], document["plan"], document["quota"]["total"]) == (True, "pro", 50_000)
        assert books.PRO.key not in done.stdout + done.stderr


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
