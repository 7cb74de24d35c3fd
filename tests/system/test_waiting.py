"""How a wait ends, in each form of the sensors and under each rule, and what it lives through."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.sandbox.cluster import routes as cluster
from airflow_provider_mediaops.sandbox.faults import DropFault, StatusFault
from tests.system.running import gaps, requests_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Ended, Runs

RULES = ("plain", "soft_fail", "never_fail")
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
FAULTS = (
    *(
        # The first look is let pass, so that the wait has begun. All others are refused: after a mistake of Airflow,
        # another try begins anew.
        StatusFault(service="cluster", status=401, body=REFUSAL, path=f",refused_{rule}_{form}/", after=1, count=100)
        for form in FORMS
        for rule in RULES
    ),
    *(
        fault
        for form in FORMS
        for path in [f",interrupted_{form}/"]
        for fault in (
            StatusFault(service="cluster", status=429, retry_after=RETRY_AFTER, path=path),
            DropFault(service="cluster", path=path),
            StatusFault(service="cluster", status=503, path=path),
        )
    ),
)


@pytest.fixture
def run(runs: Runs) -> Ended:
    return runs.ended("system_waiting")


@pytest.mark.parametrize("form", FORMS)
def test_the_rules_say_how_a_wait_ends(run: Ended, form: str) -> None:
    assert {what: run.tasks[f"{what}_{form}"].state for what in _ends()} == {
        "timed_out_plain": "failed",
        "timed_out_soft_fail": "skipped",
        "timed_out_never_fail": "skipped",
        "refused_plain": "failed",
        "refused_soft_fail": "failed",
        "refused_never_fail": "skipped",
    }


@pytest.mark.parametrize("form", FORMS)
def test_neither_end_of_a_wait_is_tried_again(run: Ended, form: str) -> None:
    assert {run.tries(f"{what}_{form}") for what in _ends()} == {1}
    assert "AirflowSensorTimeout: " in run.log(f"timed_out_plain_{form}")


@pytest.mark.parametrize("rule", RULES)
def test_a_refusal_is_told_with_the_same_typed_error_in_each_form(run: Ended, rule: str) -> None:
    told = {form: _errors(run.log(f"refused_{rule}_{form}").replace(form, "*")) for form in FORMS}
    assert told["poke"] == told["reschedule"] == told["deferred"]
    assert told["poke"][0].startswith("AuthenticationError: ")
    assert f"{cluster.LOGIN} has no password ***" in told["poke"][0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rule", RULES)
def test_a_refused_request_is_not_repeated(run: Ended, sandbox: SandboxServer, rule: str, form: str) -> None:
    name = f"refused_{rule}_{form}"
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
    assert "The wait goes on" in run.log(name)


def _ends() -> list[str]:
    return [f"{what}_{rule}" for what in ("timed_out", "refused") for rule in RULES]


def _errors(log: str) -> list[str]:
    return sorted(set(re.findall(r"AuthenticationError: .*", log)))
