"""A node that runs hot starts a DAG: once for each spike, whatever fails or dies meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pytest
import requests

from airflow_provider_mediaops.sandbox.cluster_nodes import NODES
from airflow_provider_mediaops.sandbox.faults import DropFault, StatusFault
from tests.system.running import ended, wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.faults import RequestRecord
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Ended, Runs, WatchedAirflow

DAG_ID = "system_hot_nodes"
ASSET = "mediaops-system-hot-nodes"
WATCHED = "/_nodes/sandbox-1,sandbox-3/stats"
# The watch backs off after each, from its interval of one second on.
FAULTS_WHILE_WATCHING = (
    StatusFault(service="cluster", status=401, path=WATCHED),
    DropFault(service="cluster", path=WATCHED),
    StatusFault(service="cluster", status=503, path=WATCHED),
)


class Watch(NamedTuple):
    """
    What came of the watch.

    :param runs_at: how many runs it had started at each stage.
    :param log: what the triggerer wrote before it was killed.
    """

    runs_at: dict[str, int]
    runs: list[Ended]
    log: str


@pytest.fixture(scope="module")
def watch(airflow: WatchedAirflow, sandbox: SandboxServer, runs: Runs) -> Iterator[Watch]:
    runs.all_ended()  # so that no node that they wait for is touched
    _pin(sandbox, "sandbox-1", 10)
    _pin(sandbox, "sandbox-3", 10)
    _wait_for_readings(sandbox, 3)
    # Other tests heat the same nodes.
    former = set(airflow.run_ids(DAG_ID))
    runs_at: dict[str, int] = {}

    def run_ids() -> set[str]:
        return set(airflow.run_ids(DAG_ID)) - former

    for fault in FAULTS_WHILE_WATCHING:
        sandbox.state.faults.arm(fault)
    wait_for(lambda: not [fault for fault in sandbox.state.faults.armed if fault.path == WATCHED], "all has failed")
    _wait_for_readings(sandbox, 2)
    runs_at["after failures"] = len(run_ids())

    _pin(sandbox, "sandbox-1", 97)
    wait_for(lambda: bool(run_ids()), "the spike has started a run")
    wait_for(lambda: _kept(airflow) == {"sandbox-1"}, "it is kept that the node is hot")
    _wait_for_readings(sandbox, 3)
    runs_at["while it lasts"] = len(run_ids())

    # A triggerer that is started again may begin its log anew.
    log = "".join(path.read_text() for path in airflow.home.glob("triggerer*.log"))
    airflow.kill("triggerer")
    airflow.start_again("triggerer")
    _wait_for_readings(sandbox, 4)
    runs_at["after a restart while it lasts"] = len(run_ids())

    _pin(sandbox, "sandbox-3", 95)
    wait_for(lambda: len(run_ids()) > 1, "another node's spike has started a run")
    _pin(sandbox, "sandbox-1", 10)
    wait_for(lambda: _kept(airflow) == {"sandbox-3"}, "the first one has cooled down")
    _pin(sandbox, "sandbox-1", 97)
    wait_for(lambda: len(run_ids()) > 2, "the first one's next spike has started a run")
    _wait_for_readings(sandbox, 3)
    runs_at["in the end"] = len(run_ids())
    yield Watch(runs_at, [ended(airflow, DAG_ID, run_id) for run_id in run_ids()], log)
    requests.delete(f"{sandbox.url}/_sandbox/cpu", timeout=240).raise_for_status()


def test_each_spike_starts_one_run_and_nothing_else_does(watch: Watch) -> None:
    assert watch.runs_at == {
        "after failures": 0,
        "while it lasts": 1,
        "after a restart while it lasts": 1,
        "in the end": 3,
    }
    assert {run.state for run in watch.runs} == {"success"}


def test_the_run_is_told_which_node_runs_hot(watch: Watch) -> None:
    payloads = [payload for run in watch.runs for payload in run.value("tell")]
    told = sorted([(node["name"], node["percent"]) for node in payload["nodes"]] for payload in payloads)
    assert told == [[("sandbox-1", 97)], [("sandbox-1", 97)], [("sandbox-3", 95)]]
    assert {(payload["threshold"], payload["cluster_conn_id"]) for payload in payloads} == {(90, "cluster_watched")}


def test_each_failure_is_told_once_in_the_triggerers_log(watch: Watch) -> None:
    told = [line for line in watch.log.splitlines() if "Trying again in" in line]
    words = ("with 401 security_exception", "gave no whole reply", "with 503")
    # Other tests' waits may have failed as well.
    ours = [line for line in told if "/_nodes/sandbox-1,sandbox-3/" in line]
    assert [sum(word in line for line in ours) for word in words] == [1, 1, 1]


def _pin(sandbox: SandboxServer, node: str, percent: int) -> None:
    pin = requests.post(f"{sandbox.url}/_sandbox/cpu", json={"node": node, "percent": percent}, timeout=240)
    pin.raise_for_status()


def _readings(sandbox: SandboxServer) -> list[RequestRecord]:
    return [request for request in list(sandbox.state.requests) if WATCHED in request.path and not request.fault]


def _wait_for_readings(sandbox: SandboxServer, number: int) -> None:
    enough = len(_readings(sandbox)) + number
    wait_for(lambda: len(_readings(sandbox)) >= enough, f"the watch has read {number} times more")


def _kept(airflow: WatchedAirflow) -> set[str]:
    """Give the names of the nodes that are hot by the asset's state store."""
    ids = {whose for state in airflow.asset_states(ASSET) for whose in state}
    return {node.name for node in NODES if node.id in ids}
