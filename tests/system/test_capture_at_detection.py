"""Captures at detection, in the triggerer and in a worker: what is asked when, what is written, and how they end."""

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

SPIKES = ("spike_worker", "spike_deferred")
LIMIT_SECONDS = 40
LIMITS = ("limit_skip", "limit_fail", "limit_capture")
DEFERRED = ("spike_deferred", *LIMITS)


class Watched(NamedTuple):
    """The run, how its tasks waited, when the triggerer was restarted and the CPU got high."""

    run: Ended
    states_while_waiting: dict[str, str | None]
    restarted: datetime
    hot_since: datetime


@pytest.fixture(scope="module")
def watched(airflow: WatchedAirflow, sandbox: SandboxServer, runs: Runs) -> Iterator[Watched]:
    runs.all_ended()  # so that nobody else waits in the triggerer
    run_id = airflow.trigger("system_capture")
    wait_for(lambda: all(requests_of(sandbox, name) for name in (*SPIKES, *LIMITS)), "all wait")

    def states() -> dict[str, str | None]:
        return {task.name: task.state for task in airflow.task_instances("system_capture", run_id)}

    # On a slow machine, the time limit of the first one may pass before the last one has begun.
    states_while_waiting: dict[str, str | None] = {}

    def all_were_seen() -> bool:
        now = states()
        for name in DEFERRED:
            if now[name] == "deferred":
                states_while_waiting[name] = "deferred"
        states_while_waiting["spike_worker"] = now["spike_worker"]
        return states_while_waiting.keys() >= set(DEFERRED)

    wait_for(all_were_seen, "all that can are deferred")

    airflow.kill("triggerer")
    restarted = datetime.now(timezone.utc)
    before = len(requests_of(sandbox, "spike_deferred"))
    airflow.start_again("triggerer")
    wait_for(lambda: len(requests_of(sandbox, "spike_deferred")) >= before + 2, "the new triggerer waits")

    hot_since = datetime.now(timezone.utc)
    pins = f"{sandbox.url}/_sandbox/cpu"
    requests.post(pins, json={"node": "sandbox-1", "percent": 97}, timeout=240).raise_for_status()
    run = ended(airflow, "system_capture", run_id)
    yield Watched(run, states_while_waiting, restarted, hot_since)
    requests.delete(pins, timeout=240).raise_for_status()


def test_each_task_ends_as_it_should(watched: Watched) -> None:
    assert watched.run.states == {
        "spike_worker": "success",
        "spike_deferred": "success",
        "limit_skip": "skipped",
        "limit_fail": "failed",
        "limit_capture": "success",
        "unwritable": "failed",
    }
    assert {watched.run.tries(name) for name in watched.run.tasks} == {1}


def test_task_that_waits_in_the_triggerer_holds_no_slot(watched: Watched) -> None:
    assert {watched.states_while_waiting[name] for name in DEFERRED} == {"deferred"}
    assert watched.states_while_waiting["spike_worker"] == "running"


@pytest.mark.parametrize("name", SPIKES)
def test_the_hot_threads_of_the_hot_node_are_captured_twice(watched: Watched, output: Path, name: str) -> None:
    result = watched.run.value(name)
    assert [(cpu["node"], cpu["percent"]) for cpu in result["cpu"]] == [("sandbox-1", 97)]
    captures = [result, *result["later_captures"]]
    assert [node["node"] for taken in captures for node in taken["nodes"]] == ["sandbox-1"] * 2
    assert (result["failures"], result["timed_out"]) == ([], False)
    files = sorted(path.name for path in (output / "capture").glob(f"{name}.*"))
    numbered = [f"{name}.{number}.{suffix}" for number in (1, 2) for suffix in ("folded", "json", "txt")]
    assert files == [*numbered, f"{name}.html"]
    texts = [(output / "capture" / f"{name}.{number}.txt").read_text() for number in (1, 2)]
    assert all(text.startswith("::: {sandbox-1}") and text.count(":::") == 1 for text in texts)
    assert [taken["bytes"] for taken in captures] == [len(text.encode()) for text in texts]


@pytest.mark.parametrize("name", SPIKES)
def test_they_are_asked_for_by_the_step_that_saw_the_spike(watched: Watched, sandbox: SandboxServer, name: str) -> None:
    taken = datetime.fromisoformat(watched.run.value(name)["taken"])
    last_reading = requests_of(sandbox, name)[-1]
    assert (taken - watched.hot_since).total_seconds() >= 2
    # After the reading that showed it, this task asks for the hot threads only.
    assert taken >= last_reading.at
    assert _captures(sandbox, last_reading.at)


def test_the_time_limit_outlives_the_triggerer(watched: Watched, sandbox: SandboxServer, output: Path) -> None:
    began = {name: requests_of(sandbox, name)[0].at for name in LIMITS}
    late = watched.run.value("limit_capture")
    assert late["timed_out"]
    assert (datetime.fromisoformat(late["taken"]) - began["limit_capture"]).total_seconds() > LIMIT_SECONDS / 2
    # The time limit did not begin anew with the triggerer: else it would ask every second for that time.
    for name in LIMITS[:2]:
        asked = [request.at for request in requests_of(sandbox, name) if request.at > watched.restarted]
        # What is asked after a mistake of Airflow is asked by another try.
        ends = watched.run.mistaken_ends(name)
        later = [at for at in asked if not ends or at < ends[0]]
        assert not later or (later[-1] - later[0]).total_seconds() < LIMIT_SECONDS - 2
    assert (output / "capture" / "limit_capture.txt").read_text().startswith("::: {sandbox-1}")
    assert not list((output / "capture").glob("limit_skip*"))
    assert "AirflowSensorTimeout: No spike in wait_timeout=40 s" in watched.run.log("limit_fail")


def test_destination_that_cannot_be_written_is_known_before_the_wait(watched: Watched, sandbox: SandboxServer) -> None:
    assert requests_of(sandbox, "unwritable") == []
    assert "unwritable.txt cannot be written" in watched.run.log("unwritable")


def _captures(sandbox: SandboxServer, since: datetime) -> list[RequestRecord]:
    requests = [request for request in list(sandbox.state.requests) if request.path.endswith("hot_threads")]
    return [request for request in requests if request.at >= since]
