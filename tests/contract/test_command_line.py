"""The provider on Airflow's own command line, each command in a process of its own."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops import __version__
from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES
from airflow_provider_mediaops.get_provider_info import get_provider_info
from airflow_provider_mediaops.sandbox.books import plans
from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.video import tokens
from tests.contract import fresh_python

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer

pytestmark = pytest.mark.long

NAME = "airflow-provider-mediaops"
ENABLED = {"AIRFLOW__CORE__TEST_CONNECTION": "Enabled"}
SECRETS = [tokens.BEARER_TOKEN, cluster.PASSWORD, plans.PRO.key]


def rows_of(*command: str) -> list[dict[str, Any]]:
    """Run `airflow ... --output json` and give its table."""
    done = fresh_python.run("-m", "airflow", *command, "--output", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    # Warnings of other packages may stand before it.
    rows: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("[{") :])
    return rows


def tried(conn_id: str) -> str:
    """Run `airflow connections test`, and give what it said of the outcome."""
    done = fresh_python.run("-m", "airflow", "connections", "test", conn_id, env=ENABLED)
    _, found, outcome = re.sub(r"\s+", " ", done.stdout).partition("Testing... ")
    assert found, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return outcome.strip()


def test_the_provider_is_listed() -> None:
    (row,) = [row for row in rows_of("providers", "list") if row["package_name"] == NAME]
    assert row["version"] == __version__
    assert row["description"].rstrip(".") == get_provider_info()["description"].rstrip(".")


def test_the_hooks_are_listed() -> None:
    rows = {row["connection_type"]: row for row in rows_of("providers", "hooks") if row["package_name"] == NAME}
    assert {name: (row["class"], row["hook_name"]) for name, row in rows.items()} == {
        name: (described["hook-class-name"], described["hook-name"]) for name, described in CONNECTION_TYPES.items()
    }


# A process takes seconds: one service stands for all, whose own tests of connections are in tests/unit/hooks.
@pytest.mark.usefixtures("airflow_db", "sandbox")
def test_a_good_connection_is_found_good() -> None:
    assert tried("mediaops_books_default") == "Connection success!"


@pytest.mark.usefixtures("airflow_db")
def test_a_wrong_key_is_told_without_a_secret(sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> None:
    conn_id = "mediaops_video_default"
    variable = f"AIRFLOW_CONN_{conn_id.upper()}"
    connection = json.loads(sandbox.connections()[variable])
    monkeypatch.setenv(variable, json.dumps({**connection, "password": "not-the-right-one"}))
    said = tried(conn_id)
    assert said.startswith("Connection failed!")
    assert "password" in said.removeprefix("Connection failed!")
    assert not [secret for secret in [*SECRETS, "not-the-right-one"] if secret in said]


@pytest.mark.usefixtures("airflow_db")
def test_a_service_that_is_not_there_is_told(sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = "AIRFLOW_CONN_MEDIAOPS_CLUSTER_DEFAULT"
    connection = json.loads(sandbox.connections()[variable])
    # Port 1 of this machine: nobody listens there.
    monkeypatch.setenv(variable, json.dumps({**connection, "host": "http://127.0.0.1:1"}))
    said = tried("mediaops_cluster_default")
    assert said.startswith("Connection failed!")
    assert "127.0.0.1:1" in said
    assert cluster.PASSWORD not in said


def test_the_configuration_shows_where_rates_are_kept(tmp_path: Path) -> None:
    asked = ("-m", "airflow", "config", "get-value", "mediaops", "rate_limit_store")
    default = fresh_python.run(*asked, env={"AIRFLOW_HOME": str(tmp_path)})
    assert default.stdout.splitlines()[-1] == f"sqlite:///{tmp_path}/mediaops_rate_limits.db", default.stderr
    own = fresh_python.run(*asked, env={"AIRFLOW__MEDIAOPS__RATE_LIMIT_STORE": "redis://redis.example.com"})
    assert own.stdout.splitlines()[-1] == "redis://redis.example.com", own.stderr
