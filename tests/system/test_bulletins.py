"""
A bulletin is posted at most once: what becomes of it where its task is killed, retried or cleared.

The record is in the task state store, which only a real Airflow has. `tests/contract/test_bulletin_deaths.py` kills a
task with a journal at each step, and `tests/models` one with either record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sandbox.faults import DelayFault, DropFault, Fault
from airflow_provider_mediaops.video.at_most_once import RECORD_KEY
from tests.system.running import ended, own_platforms, wait_for, worker_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Ended, WatchedAirflow

DAG_ID = "system_bulletins"
MISHAPS: dict[str, Fault] = {
    # Longer than it takes to find the task and to kill it, however slow Airflow answers meanwhile.
    "killed": DelayFault(service="video", seconds=600, point="before_reply"),
    "reply_lost": DropFault(service="video", point="before_reply"),
}
TASKS = ["killed", "reply_lost", "retried", "posted_then_cleared"]


@dataclass(frozen=True)
class Outcome:
    """
    How the run has ended, once or again.

    :param posted: the ids of the bulletins on each task's own platform.
    :param asked: how many requests it got.
    :param records: what the state store says of each task's bulletin.
    """

    run: Ended
    posted: dict[str, list[str]]
    asked: dict[str, int]
    records: dict[str, dict[str, Any]]

    def end(self, task_id: str) -> tuple[str | None, int]:
        """How a task ended, and at which try of its own."""
        return self.run.tasks[task_id].state, self.run.tries(task_id)

    def returned(self, task_id: str) -> str:
        """Which bulletin a task returned."""
        return str(self.run.value(task_id)["id"])


@pytest.fixture(scope="module")
def platforms(airflow: WatchedAirflow) -> Iterator[dict[str, SandboxServer]]:
    """Have a platform for each task, with a connection to it."""
    with own_platforms(airflow, dict.fromkeys(TASKS), timeout=900) as servers:
        for name, mishap in MISHAPS.items():
            servers[name].state.faults.arm(mishap)
        yield servers


@pytest.fixture(scope="module")
def first(airflow: WatchedAirflow, platforms: dict[str, SandboxServer], output: Path) -> Outcome:
    """Let the run end, after a worker was killed with its task, as on a machine that is switched off."""
    run_id = airflow.trigger(DAG_ID)
    wait_for(lambda: bool(platforms["killed"].state.bulletins), "the platform has the bulletin of the doomed task")
    for process in worker_of(int((output / "killed.pid").read_text())):
        process.kill()
    return outcome(ended(airflow, DAG_ID, run_id), platforms)


@pytest.fixture(scope="module")
def second(airflow: WatchedAirflow, platforms: dict[str, SandboxServer], first: Outcome) -> Outcome:
    """Let the run end again, after some of its tasks were cleared; of one the record was deleted before."""
    airflow.forget_task_state(DAG_ID, first.run.run_id, "killed", RECORD_KEY)
    airflow.clear(DAG_ID, first.run.run_id, ("reply_lost", "posted_then_cleared", "killed"))
    return outcome(ended(airflow, DAG_ID, first.run.run_id), platforms)


def outcome(run: Ended, platforms: dict[str, SandboxServer]) -> Outcome:
    return Outcome(
        run,
        posted={name: [bulletin["id"] for bulletin in at.state.bulletins] for name, at in platforms.items()},
        asked={name: len(at.state.requests) for name, at in platforms.items()},
        records={name: run.airflow.task_state(DAG_ID, run.run_id, name).get(RECORD_KEY, {}) for name in platforms},
    )


def test_killed_between_intent_and_result_it_is_uncertain(first: Outcome) -> None:
    assert first.end("killed") == ("failed", 2)
    assert "UncertainDeliveryError: Try 1 of this task was about to post" in first.run.log("killed")
    assert (first.asked["killed"], len(first.posted["killed"])) == (1, 1)
    assert first.records["killed"]["state"] == "intended"


def test_failed_after_the_result_is_stored_the_retry_returns_it(first: Outcome) -> None:
    assert first.end("retried") == ("success", 2)
    assert first.posted["retried"] == [first.returned("retried")]
    assert first.asked["retried"] == 1
    assert "Try 1 has posted bulletin BULLETIN-000001; nothing is posted." in first.run.log("retried")


def test_a_lost_reply_ends_the_task(first: Outcome) -> None:
    task_id = "reply_lost"
    assert first.end(task_id) == ("failed", 1)
    assert first.records[task_id]["state"] == "intended"
    assert (first.asked[task_id], len(first.posted[task_id])) == (1, 1)


def test_a_task_that_is_cleared_returns_what_it_has_posted(first: Outcome, second: Outcome) -> None:
    task_id = "posted_then_cleared"
    assert (first.end(task_id), second.end(task_id)) == (("success", 1), ("success", 2))
    assert second.posted[task_id] == first.posted[task_id] == [second.returned(task_id)]
    assert second.asked[task_id] == 1


def test_uncertain_bulletin_stays_so_where_the_task_is_cleared(second: Outcome) -> None:
    task_id = "reply_lost"
    assert second.end(task_id) == ("failed", 2)
    assert "UncertainDeliveryError: Try 1 of this task was about to post" in second.run.log(task_id)
    assert second.asked[task_id] == 1


def test_bulletin_whose_record_was_deleted_is_posted_when_it_is_cleared(first: Outcome, second: Outcome) -> None:
    assert second.run.states["killed"] == "success"
    assert second.posted["killed"] == [*first.posted["killed"], second.returned("killed")]
