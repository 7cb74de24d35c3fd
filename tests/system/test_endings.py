"""How errors end a task that has retries left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.sandbox.faults import StatusFault
from tests.system.running import gaps, requests_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Ended, Runs, WatchedAirflow

RETRY_AFTER = 8
DAGS = ("system_endings",)
FAULTS = (StatusFault(service="cluster", status=503, retry_after=RETRY_AFTER, path=",asked_to_wait/hot_threads"),)


@pytest.fixture
def run(runs: Runs) -> Ended:
    return runs.ended("system_endings")


@pytest.mark.parametrize(
    ("task_id", "error"),
    [
        ("inactive_key", "AuthenticationError"),
        ("missing_scope", "PermissionDeniedError"),
        ("bad_argument", "InvalidArgumentError"),
        ("no_connection", "InvalidConnectionError"),
    ],
)
def test_a_permanent_error_ends_the_task_at_its_first_try(run: Ended, task_id: str, error: str) -> None:
    assert (run.tasks[task_id].state, run.tries(task_id)) == ("failed", 1)
    assert f"\n{error}: " in run.log(task_id)


@pytest.mark.parametrize(
    ("task_id", "decision"),
    [
        ("inactive_key", ("fail", "AuthenticationError: a retry would fail in the same way")),
        ("asked_to_wait", ("retry", "ServiceUnavailableError: a retry before then would fail")),
    ],
)
def test_the_log_says_what_was_decided_and_why(
    run: Ended, airflow: WatchedAirflow, task_id: str, decision: tuple[str, str]
) -> None:
    tries = run.tasks[task_id].try_number
    events = airflow.log_events("system_endings", run.run_id, task_id, tries=tries)
    decided = [(event["action"], event["reason"]) for event in events if event["event"] == "Retry policy decision"]
    assert decided == [decision]


def test_a_temporary_error_is_tried_again_after_what_the_service_asked(run: Ended, sandbox: SandboxServer) -> None:
    assert (run.tasks["asked_to_wait"].state, run.tries("asked_to_wait")) == ("success", 2)
    asked = [request for request in requests_of(sandbox, "asked_to_wait") if request.path.endswith("hot_threads")]
    assert [request.status for request in asked] == [503, 200]
    # Far more than the task's own retry_delay.
    assert gaps(asked)[0] >= RETRY_AFTER
