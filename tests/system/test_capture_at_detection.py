"""
Captures at detection in a triggerer that is killed meanwhile.

`tests/unit/operators/test_capture_when_hot.py` has them in a worker, too, with each end.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import requests

from tests.system.running import ended, requests_of, wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.faults import RequestRecord
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Ended, Runs, WatchedAirflow

TASKS = {"spike", "limit"}
LIMIT_SECONDS = 40


class Watched(NamedTuple):
    """The run, when the triggerer was restarted, and when the CPU got high."""

    run: Ended
    restarted: datetime
    hot_since: datetime


@pytest.fixture(scope="module")
def watched(airflow: WatchedAirflow, sandbox: SandboxServer, runs: Runs) -> Iterator[Watched]:
    runs.all_ended()  # so that nobody else waits in the triggerer
    run_id = airflow.trigger("system_capture")
    # On a slow machine, the time limit of the one may pass before the other has begun.
    deferred = set[str]()

    def all_were_deferred() -> bool:
        """Return whether each has let go of its slot, and its trigger has made a reading."""
        tasks = airflow.task_instances("system_capture", run_id)
        deferred.update(task.name for task in tasks if task.state == "deferred" and requests_of(sandbox, task.name))
        return deferred == TASKS

    wait_for(all_were_deferred, "both are deferred")
    airflow.kill("triggerer")
    restarted = datetime.now(timezone.utc)
    before = len(requests_of(sandbox, "spike"))
    airflow.start_again("triggerer")
    wait_for(lambda: len(requests_of(sandbox, "spike")) >= before + 2, "the new triggerer waits")

    hot_since = datetime.now(timezone.utc)
    pins = f"{sandbox.url}/_sandbox/cpu"
    requests.post(pins, json={"node": "sandbox-1", "percent": 97}, timeout=240).raise_for_status()
    run = ended(airflow, "system_capture", run_id)
    yield Watched(run, restarted, hot_since)
    requests.delete(pins, timeout=240).raise_for_status()


def test_both_end_at_their_first_try(watched: Watched) -> None:
    assert watched.run.states == dict.fromkeys(TASKS, "success")
    assert {watched.run.tries(name) for name in TASKS} == {1}


def test_the_hot_threads_of_the_hot_node_are_captured_twice(watched: Watched, output: Path) -> None:
    result = watched.run.value("spike")
    assert [(cpu["node"], cpu["percent"]) for cpu in result["cpu"]] == [("sandbox-1", 97)]
    captures = [result, *result["later_captures"]]
    assert [node["node"] for taken in captures for node in taken["nodes"]] == ["sandbox-1"] * 2
    assert (result["failures"], result["timed_out"]) == ([], False)
    files = sorted(path.name for path in (output / "capture").glob("spike.*"))
    numbered = [f"spike.{number}.{suffix}" for number in (1, 2) for suffix in ("folded", "json", "txt")]
    assert files == [*numbered, "spike.html"]
    texts = [(output / "capture" / f"spike.{number}.txt").read_text() for number in (1, 2)]
    assert [taken["bytes"] for taken in captures] == [len(text.encode()) for text in texts]


def test_they_are_asked_for_by_the_step_that_saw_the_spike(watched: Watched, sandbox: SandboxServer) -> None:
    taken = datetime.fromisoformat(watched.run.value("spike")["taken"])
    last_reading = requests_of(sandbox, "spike")[-1]
    assert (taken - watched.hot_since).total_seconds() >= 2
    # After the reading that showed it, this task asks for the hot threads only.
    assert taken >= last_reading.at
    assert [request for request in _captures(sandbox) if request.at >= last_reading.at]


def test_the_time_limit_outlives_the_triggerer(watched: Watched, sandbox: SandboxServer, output: Path) -> None:
    late = watched.run.value("limit")
    assert late["timed_out"]
    readings = [request.at for request in requests_of(sandbox, "limit")]
    assert (datetime.fromisoformat(late["taken"]) - readings[0]).total_seconds() > LIMIT_SECONDS / 2
    # The time limit did not begin anew with the triggerer: else it would ask every second for that time.
    asked = [at for at in readings if at > watched.restarted]
    # What is asked after a mistake of Airflow is asked by another try.
    ends = watched.run.mistaken_ends("limit")
    later = [at for at in asked if not ends or at < ends[0]]
    assert not later or (later[-1] - later[0]).total_seconds() < LIMIT_SECONDS - 2
    assert (output / "capture" / "limit.txt").read_text().startswith("::: {sandbox-1}")


def _captures(sandbox: SandboxServer) -> list[RequestRecord]:
    return [request for request in list(sandbox.state.requests) if request.path.endswith("hot_threads")]
