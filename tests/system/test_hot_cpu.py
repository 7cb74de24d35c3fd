"""The wait for a node that runs hot, in each form and past the death of the triggerer."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

import pytest
import requests

from tests.system.connections import SECRETS
from tests.system.running import ended, gaps, requests_of, wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Ended, Runs, WatchedAirflow

SUSTAINED_FOR = 2
FORMS = {"poke": 1, "reschedule": 5, "deferred": 1}
"""The forms, each with the interval in which it looks."""


class Watched(NamedTuple):
    """The run, what its waiting trigger was given, and since when the CPU was high."""

    run: Ended
    trigger_arguments: list[str]
    hot_since: datetime


@pytest.fixture(scope="module")
def watched(airflow: WatchedAirflow, sandbox: SandboxServer, runs: Runs) -> Watched:
    runs.all_ended()  # so that nobody else waits in the triggerer
    run_id = airflow.trigger("system_hot_cpu")
    wait_for(lambda: all(requests_of(sandbox, f"hot_{form}") for form in FORMS), "each form waits")
    # Its first look is in a worker: after it, Airflow has yet to be told of the trigger.
    wait_for(lambda: state_of(airflow, run_id, "deferred") == "deferred", "the trigger is in the database")
    arguments = [text for text in airflow.trigger_arguments() if "hot_deferred" in text]

    airflow.kill("triggerer")
    before = len(requests_of(sandbox, "hot_deferred"))
    airflow.start_again("triggerer")
    wait_for(lambda: len(requests_of(sandbox, "hot_deferred")) >= before + 3, "the new triggerer waits")
    wait_for(lambda: len(requests_of(sandbox, "hot_reschedule")) >= 2, "the rescheduled task has looked again")

    hot_since = datetime.now(timezone.utc)
    pin = requests.post(f"{sandbox.url}/_sandbox/cpu", json={"node": "sandbox-3", "percent": 97}, timeout=240)
    pin.raise_for_status()
    return Watched(ended(airflow, "system_hot_cpu", run_id), arguments, hot_since)


def state_of(airflow: WatchedAirflow, run_id: str, task_id: str) -> str | None:
    """Give the state of a task."""
    return {task.name: task.state for task in airflow.task_instances("system_hot_cpu", run_id)}[task_id]


@pytest.mark.parametrize("form", FORMS)
def test_each_form_finds_the_node(watched: Watched, form: str) -> None:
    assert watched.run.tasks[form].state == "success"
    found = [(node["name"], node["percent"], node["source"]) for node in watched.run.value(form)]
    assert found == [("sandbox-3", 97, "os")]


@pytest.mark.parametrize("form", FORMS)
def test_the_cpu_was_high_for_as_long_as_was_asked(watched: Watched, sandbox: SandboxServer, form: str) -> None:
    assert watched.run.tasks[form].state == "success"
    last_look = requests_of(sandbox, f"hot_{form}")[-1].at
    assert (last_look - watched.hot_since).total_seconds() >= SUSTAINED_FOR


# In the triggerer the interval is that between the starts of two readings, which says nothing of their arrivals.
@pytest.mark.parametrize("form", ["poke", "reschedule"])
def test_the_service_is_not_asked_more_often_than_wanted(watched: Watched, sandbox: SandboxServer, form: str) -> None:
    assert watched.run.tasks[form].state == "success"
    before_it_was_hot = [request for request in requests_of(sandbox, f"hot_{form}") if request.at < watched.hot_since]
    assert len(before_it_was_hot) >= 2
    assert all(gap >= FORMS[form] for gap in gaps(before_it_was_hot))


def test_the_trigger_holds_the_connection_by_its_id_only(watched: Watched) -> None:
    (arguments,) = watched.trigger_arguments
    assert "mediaops_cluster_default" in arguments
    assert not [secret for secret in SECRETS if secret in arguments]
