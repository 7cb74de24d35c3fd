"""
Exports that a person marks as failed, or clears, while they work, in workers and in the triggerer.

`tests/contract/test_stopping.py` sends each operator the signal by which a worker is told, in each of its phases.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

import pytest

from airflow_provider_mediaops.sandbox.faults import DelayFault, Fault, StatusFault
from airflow_provider_mediaops.sandbox.state import Settings
from tests.system.running import Ended, ended, own_services, wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import WatchedAirflow

DAG_ID = "system_stops"
# A refused request would be sent again after this; Airflow kills a task that it stops after five seconds.
RETRY_AFTER = 20
PAGES = 3
IN_WORKERS = ("stopped", "cleared")
# In the triggerer, a request is refused as often as it is asked for; in a worker, its reply does not come.
HELD_BY: dict[str, Fault] = {
    "stopped_deferred": StatusFault(service="video", status=429, retry_after=RETRY_AFTER, after=1, count=50),
    **{name: DelayFault(service="video", seconds=600, point="before_reply", after=1) for name in IN_WORKERS},
}


class Stopped(NamedTuple):
    """
    What the platforms were asked.

    :param before: how many requests each had when the tasks in workers had ended.
    :param after: how many when no more came for so long that a refused one would have been sent again.
    :param again: the run, when its tasks were cleared and have ended.
    """

    before: dict[str, int]
    after: dict[str, int]
    again: Ended


@pytest.fixture(scope="module")
def platforms(airflow: WatchedAirflow) -> Iterator[dict[str, SandboxServer]]:
    settings = dict.fromkeys(HELD_BY, Settings(subscriptions=PAGES * 50))
    with own_services(airflow, "video", settings, max_wait=3000, max_attempts=100, timeout=900) as servers:
        for name, fault in HELD_BY.items():
            servers[name].state.faults.arm(fault)
        yield servers


@pytest.fixture(scope="module")
def stopped(airflow: WatchedAirflow, platforms: dict[str, SandboxServer]) -> Stopped:
    run_id = airflow.trigger(DAG_ID)

    def counts() -> dict[str, int]:
        return {name: len(server.state.requests) for name, server in platforms.items()}

    wait_for(lambda: min(counts().values()) > 1, "each task is held")
    airflow.clear(DAG_ID, run_id, ["cleared"])
    for name in ("stopped", "stopped_deferred"):
        airflow.mark(DAG_ID, run_id, name, "failed")

    wait_for(lambda: all_stopped(airflow, run_id), "the workers have ended them")
    before = counts()
    seen, since = counts(), time.monotonic()

    def nothing_comes() -> bool:
        nonlocal seen, since
        if (now := counts()) != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > RETRY_AFTER + 1

    # The triggerer cancels them when it comes to it. One that went on would ask again, sooner than this.
    wait_for(nothing_comes, "the triggerer has ended them, too", 240)
    after = counts()
    for server in platforms.values():
        server.state.faults.armed.clear()
    ended(airflow, DAG_ID, run_id)
    airflow.clear(DAG_ID, run_id, ["stopped", "stopped_deferred"])
    return Stopped(before, after, ended(airflow, DAG_ID, run_id))


def all_stopped(airflow: WatchedAirflow, run_id: str) -> bool:
    """Return whether each task in a worker has logged its end; one may have had an earlier try."""
    tries = {task.name: task.try_number for task in airflow.task_instances(DAG_ID, run_id)}
    logs = [
        airflow.task_log(DAG_ID, run_id, name, try_number=number)
        for name in IN_WORKERS
        for number in range(1, tries[name] + 1)
    ]
    return sum("TaskStoppedError" in log for log in logs) >= len(IN_WORKERS)


def test_nothing_is_sent_afterwards(stopped: Stopped) -> None:
    # Until nothing comes from the triggerer is waited for above; the cleared one begins anew.
    assert stopped.after["stopped"] == stopped.before["stopped"]


@pytest.mark.parametrize("name", HELD_BY)
def test_the_next_run_of_the_task_resumes_after_the_pages_that_it_had(
    stopped: Stopped, platforms: dict[str, SandboxServer], name: str
) -> None:
    assert stopped.again.states[name] == "success"
    # One is refused until it is stopped. Of the others, the reply to the page that was under way was not waited for.
    requests = list(platforms[name].state.requests)
    served = [request for request in requests if request.status != HTTPStatus.TOO_MANY_REQUESTS]
    assert len(served) == (PAGES if name == "stopped_deferred" else PAGES + 1)
    assert stopped.again.value(name)["resumed"] is True
