"""One real Airflow and one sandbox for the whole suite.

A test file names in `DAGS` the DAGs that it is about, and in `FAULTS` what goes wrong while they run. Those of all
chosen files are started together: their runs share the two cores of a small machine and each other's waits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_mediaops.sandbox.server import SandboxServer
from scripts.demo import demo_params
from tests.system import connections, triggerer_watch
from tests.system.running import Runs, WatchedAirflow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer() as server:
        yield server


@pytest.fixture(scope="session")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the DAGs write."""
    return tmp_path_factory.mktemp("output")


@pytest.fixture(scope="session")
def airflow(sandbox: SandboxServer, output: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedAirflow]:
    scratch = tmp_path_factory.mktemp("airflow")
    dags = scratch / "dags"
    dags.mkdir()
    (dags / "system").symlink_to(Path(__file__).parent / "dags")
    (dags / "examples").symlink_to(ROOT / "example_dags")
    (dags / "recipes").symlink_to(ROOT / "docs" / "recipes")
    env = {
        **connections.in_environment(sandbox),
        "MEDIAOPS_OUTPUT": output.as_uri(),
        # A triggerer that was killed is taken for dead after so many seconds.
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "5",
        # And a task whose worker was killed. A worker gives a sign of life every second; but while two of Airflow's
        # requests wait for each other (see scripts/local_airflow.py), nobody hears it.
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
    }
    triggerer_watch.install(scratch / "home")
    with WatchedAirflow(scratch / "home", dags=dags, env=env) as running:
        connection = json.dumps(connections.in_database(sandbox))
        running.cli("connections", "add", "mediaops_books_default", "--conn-json", connection)
        yield running


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, airflow: WatchedAirflow, sandbox: SandboxServer, output: Path) -> Runs:
    parents = {item.getparent(pytest.Module) for item in request.session.items}
    modules = [parent.obj for parent in parents if parent is not None]
    for module in modules:
        for fault in getattr(module, "FAULTS", ()):
            sandbox.state.faults.arm(fault)
    dag_ids = dict.fromkeys(dag_id for module in modules for dag_id in getattr(module, "DAGS", ()))
    return Runs(airflow, {dag_id: demo_params(dag_id, output) for dag_id in dag_ids})
