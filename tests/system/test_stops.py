"""Tasks that a person marks as failed, or clears, while they work, in workers and in the triggerer."""

from __future__ import annotations

import time
from contextlib import ExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from airflow_provider_mediaops.sandbox.faults import DelayFault, Fault, StatusFault
from airflow_provider_mediaops.sandbox.state import Settings
from tests.system.running import Ended, ended, own_services, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.sandbox.faults import Service
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import WatchedAirflow

DAG_ID = "system_stops"
# A refused request would be sent again after this; Airflow kills a task that it stops after five seconds.
RETRY_AFTER = 20
PAGES, ROWS = 3, 12
KINDS: dict[str, Service] = {
    "stopped_bulletin": "video",
    "stopped_export": "video",
    "cleared_export": "video",
    "stopped_enrichment": "books",
    "stopped_deferred_enrichment": "books",
    "stopped_deferred_export": "video",
    "stopped_deferred_capture": "cluster",
}
IN_WORKERS = ("stopped_bulletin", "stopped_export", "cleared_export", "stopped_enrichment")
RUN_AGAIN = (
    "stopped_bulletin",
    "stopped_export",
    "stopped_enrichment",
    "stopped_deferred_enrichment",
    "stopped_deferred_export",
)
REFUSED = {
    "stopped_bulletin": 0,
    "stopped_enrichment": 4,
    "stopped_deferred_enrichment": 4,
    "stopped_deferred_export": 1,
}
FAULTS_OF: dict[str, Fault] = {
    **{
        name: StatusFault(service=KINDS[name], status=429, retry_after=RETRY_AFTER, after=after, count=50)
        for name, after in REFUSED.items()
    },
    **{
        name: DelayFault(service="video", seconds=600, point="before_reply", after=1)
        for name in ("stopped_export", "cleared_export")
    },
}


class Stopped(NamedTuple):
    """
    What the services were asked.

    :param before: how many requests each had when the tasks in workers had ended.
    :param after: how many when no more came for so long that a refused one would have been sent again.
    :param again: the run, when its tasks were cleared and have ended.
    """

    before: dict[str, int]
    after: dict[str, int]
    again: Ended


@pytest.fixture(scope="module")
def services(airflow: WatchedAirflow) -> Iterator[dict[str, SandboxServer]]:
    patience = {"max_wait": 3000, "max_attempts": 100, "timeout": 900}
    with ExitStack() as stack:
        servers: dict[str, SandboxServer] = {}
        for kind in set(KINDS.values()):
            names = [name for name, service in KINDS.items() if service == kind]
            settings = dict.fromkeys(names, Settings(subscriptions=PAGES * 50))
            servers |= stack.enter_context(own_services(airflow, kind, settings, **patience))
        for name, fault in FAULTS_OF.items():
            servers[name].state.faults.arm(fault)
        yield servers


@pytest.fixture(scope="module")
def stopped(airflow: WatchedAirflow, services: dict[str, SandboxServer]) -> Stopped:
    run_id = airflow.trigger(DAG_ID)

    def counts() -> dict[str, int]:
        return {name: len(server.state.requests) for name, server in services.items()}

    def are_held() -> bool:
        held = {name: bool(server.state.requests) for name, server in services.items()}
        for name, server in services.items():
            statuses = [request.status for request in list(server.state.requests)]
            if name in REFUSED:
                held[name] = 429 in statuses
            elif name in FAULTS_OF:
                held[name] = len(statuses) > 1
        return all(held.values())

    wait_for(are_held, "each task is held")
    airflow.clear(DAG_ID, run_id, ["cleared_export"])
    for name in set(KINDS) - {"cleared_export"}:
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
    for name in RUN_AGAIN:
        services[name].state.faults.clear()
    ended(airflow, DAG_ID, run_id)
    airflow.clear(DAG_ID, run_id, RUN_AGAIN)
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
    # Until nothing comes from the triggerer is waited for above.
    others = set(IN_WORKERS) - {"cleared_export"}
    assert {name: stopped.after[name] for name in others} == {name: stopped.before[name] for name in others}


@pytest.mark.parametrize("name", [*RUN_AGAIN, "cleared_export"])
def test_the_next_run_of_the_task_begins_at_once_and_succeeds(stopped: Stopped, name: str) -> None:
    assert stopped.again.states[name] == "success"


@pytest.mark.parametrize("name", ["stopped_export", "cleared_export", "stopped_deferred_export"])
def test_an_export_resumes_after_the_pages_that_it_had(
    stopped: Stopped, services: dict[str, SandboxServer], name: str
) -> None:
    # One is refused as often as it is asked for until the task is stopped. Of the others, the reply to the page that
    # was under way was not waited for.
    served = [
        request for request in list(services[name].state.requests) if request.status != HTTPStatus.TOO_MANY_REQUESTS
    ]
    assert len(served) == (PAGES if name in REFUSED else PAGES + 1)
    assert stopped.again.value(name)["resumed"] is True


@pytest.mark.parametrize("name", ["stopped_enrichment", "stopped_deferred_enrichment"])
def test_an_enrichment_resumes(stopped: Stopped, name: str) -> None:
    summary: dict[str, Any] = stopped.again.value(name)
    assert (summary["rows"], summary["found"], summary["resumed"]) == (ROWS, ROWS, True)


@pytest.mark.usefixtures("stopped")
def test_a_bulletin_that_was_refused_is_posted_once(services: dict[str, SandboxServer]) -> None:
    assert len(services["stopped_bulletin"].state.bulletins) == 1
