"""
How a wait ends in each form of the sensors, and what it lives through.

`tests/unit/sensors/test_worlds.py` has each sensor in each form, under each rule and in many more worlds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.sandbox import cluster
from airflow_provider_mediaops.sandbox.faults import DropFault, StatusFault
from tests.system.running import gaps, requests_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Ended, Runs

RETRY_AFTER = 6
# The seconds that must lie between the requests of an interrupted wait: what the service asked for, then the interval,
# which is five seconds for a rescheduled task.
PAUSES = {"poke": (RETRY_AFTER, 1, 1), "reschedule": (RETRY_AFTER, 5, 5), "deferred": (RETRY_AFTER, 1, 1)}
FORMS = tuple(PAUSES)
# The fault of each look, and the status of the reply.
LOOKS = [("status", 429), ("drop", 200), ("status", 503), (None, 200)]
# The refusal tells the password that it refuses: it is not to be repeated.
REFUSAL = {"error": {"type": "security_exception", "reason": f"{cluster.LOGIN} has no password {cluster.PASSWORD}"}}
DAGS = ("system_waiting",)
FAULTS = tuple(
    fault
    for form in FORMS
    for fault in (
        # The first look is let pass, so that the wait has begun. All others are refused: after a mistake of Airflow,
        # another try begins anew.
        StatusFault(service="cluster", status=401, body=REFUSAL, path=f",refused_{form}/", after=1, count=100),
        StatusFault(service="cluster", status=429, retry_after=RETRY_AFTER, path=f",interrupted_{form}/"),
        DropFault(service="cluster", path=f",interrupted_{form}/"),
        StatusFault(service="cluster", status=503, path=f",interrupted_{form}/"),
    )
)
ENDS = {"timed_out": "failed", "timed_out_softly": "skipped", "refused": "failed"}


@pytest.fixture
def run(runs: Runs) -> Ended:
    return runs.ended("system_waiting")


@pytest.mark.parametrize("form", FORMS)
def test_wait_ends_by_its_time_limit_or_a_refusal_and_is_not_tried_again(run: Ended, form: str) -> None:
    assert {what: run.tasks[f"{what}_{form}"].state for what in ENDS} == ENDS
    assert {run.tries(f"{what}_{form}") for what in ENDS} == {1}
    assert "AirflowSensorTimeout: " in run.log(f"timed_out_{form}")


@pytest.mark.parametrize("form", FORMS)
def test_a_refusal_is_told_without_the_password_and_not_asked_for_again(
    run: Ended, sandbox: SandboxServer, form: str
) -> None:
    name = f"refused_{form}"
    told = re.findall(r"AuthenticationError: .*", run.log(name))
    assert [line for line in told if f"{cluster.LOGIN} has no password ***" in line]
    statuses = [request.status for request in requests_of(sandbox, name)]
    assert statuses[:2] == [200, 401]
    assert set(statuses[2:]) <= {401}
    assert len(statuses) - 2 <= len(run.mistaken_ends(name))


@pytest.mark.parametrize("form", FORMS)
def test_temporary_failures_are_waited_out(run: Ended, sandbox: SandboxServer, form: str) -> None:
    name = f"interrupted_{form}"
    assert (run.tasks[name].state, run.tries(name)) == ("success", 1)
    requests = requests_of(sandbox, name)
    # After a mistake of Airflow, another try looks again.
    again = len(requests) - len(LOOKS)
    assert 0 <= again <= len(run.mistaken_ends(name))
    assert [(request.fault, request.status) for request in requests] == [*LOOKS, *[(None, 200)] * again]
    pauses = gaps(requests[: len(LOOKS)])
    assert all(gap >= pause for gap, pause in zip(pauses, PAUSES[form], strict=True))
    assert "Trying again in" in run.log(name)
