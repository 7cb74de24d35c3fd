"""Exports in the triggerer: they wait there as long as the service asks, and go on there after it was killed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from airflow_provider_mediaops.sandbox.faults import StatusFault
from airflow_provider_mediaops.sandbox.state import Settings
from tests.system.running import ended, own_platforms, wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Ended, Runs, WatchedAirflow

DAG_ID = "system_deferred_export"
PAGES = 5
# Seconds that a call would wait, and those that the service asks for: a worker's attempt would end.
MAX_WAIT, SOON, LATER = 2, 20, 3_000
REFUSED = {"put_off": SOON, "restarted": LATER}
PAGES_BEFORE = 2
NAMES = ("in_worker", *REFUSED)


class Exported(NamedTuple):
    """The run, and what had happened when the triggerer was killed."""

    run: Ended
    states: dict[str, str | None]
    before: int


@pytest.fixture(scope="module")
def platforms(airflow: WatchedAirflow, runs: Runs) -> Iterator[dict[str, SandboxServer]]:
    """Have a platform for each task, once all other runs have ended; two of them refuse once in the middle."""
    runs.all_ended()  # so that nobody else loses the triggerer
    settings = dict.fromkeys(NAMES, Settings(subscriptions=50 * PAGES))
    with own_platforms(airflow, settings, max_wait=MAX_WAIT) as servers:
        for name, seconds in REFUSED.items():
            fault = StatusFault(service="video", status=429, retry_after=seconds, after=PAGES_BEFORE)
            servers[name].state.faults.arm(fault)
        yield servers


@pytest.fixture(scope="module")
def exported(airflow: WatchedAirflow, platforms: dict[str, SandboxServer]) -> Exported:
    """Let all be exported; kill the triggerer while one of them waits for nearly an hour."""
    run_id = airflow.trigger(DAG_ID)

    def states() -> dict[str, str | None]:
        return {task.name: task.state for task in airflow.task_instances(DAG_ID, run_id)}

    wait_for(lambda: states()["put_off"] == "success", "the shorter wait is over")
    wait_for(lambda: 429 in statuses(platforms["restarted"]), "the longer one is refused")
    # That the service has refused does not say yet that the trigger has heard of it.
    log = partial(airflow.task_log, DAG_ID, run_id, "restarted")
    wait_for(lambda: "Waiting in the triggerer until " in log(), "the longer one has begun")
    before = states()

    airflow.kill("triggerer")
    asked = len(statuses(platforms["restarted"]))
    airflow.start_again("triggerer")
    return Exported(ended(airflow, DAG_ID, run_id), before, asked)


def statuses(platform: SandboxServer) -> list[int | None]:
    return [request.status for request in list(platform.state.requests)]


@pytest.mark.parametrize("name", REFUSED)
def test_the_bytes_are_those_of_the_worker(exported: Exported, output: Path, name: str) -> None:
    assert exported.run.states == dict.fromkeys(NAMES, "success")
    assert exported.run.tries("in_worker") == 1
    folder = output / "deferred_export"
    assert (folder / f"{name}.csv").read_bytes() == (folder / "in_worker.csv").read_bytes()
    own = {"path": "", "resumed": ""}
    assert {**exported.run.value(name), **own} == {**exported.run.value("in_worker"), **own}
    assert {path.name for path in folder.iterdir()} == {
        each for task in NAMES for each in (f"{task}.csv", f".{task}.csv.staging")
    }


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_costs_one_request_and_no_try(
    exported: Exported, platforms: dict[str, SandboxServer], name: str
) -> None:
    assert statuses(platforms[name]) == [200] * PAGES_BEFORE + [429] + [200] * (PAGES - PAGES_BEFORE)
    assert exported.run.tries(name) == 1
    assert exported.run.value(name)["resumed"] is True


@pytest.mark.usefixtures("exported")
def test_the_service_is_given_the_time_that_it_asked_for(platforms: dict[str, SandboxServer]) -> None:
    times = [request.at for request in platforms["put_off"].state.requests]
    waits = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(times)]
    assert waits[PAGES_BEFORE] >= SOON


def test_meanwhile_the_task_is_deferred_and_its_log_says_until_when(exported: Exported) -> None:
    assert exported.states["restarted"] == "deferred"
    assert exported.before == PAGES_BEFORE + 1
    log = exported.run.log("restarted")
    kept = f"{50 * PAGES_BEFORE} subscriptions of {PAGES_BEFORE} pages"
    assert f"Kept {kept} for the next attempt." in log
    assert "Waiting in the triggerer until " in log
    assert f"resumed after {kept}." in log
