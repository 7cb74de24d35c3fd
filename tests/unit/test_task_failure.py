"""How an error ends a task, with Airflow's retry policies and without."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator, ObjectStoragePath

from airflow_provider_mediaops.books.isbn import InvalidIsbnError
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidArgumentError,
    MediaOpsError,
    NotFoundError,
    RateLimitedError,
    ServiceUnavailableError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.storage.source_file import InvalidSourceError
from airflow_provider_mediaops.task_failure import ending_task, is_templated
from airflow_provider_mediaops.version_compat import AirflowFailException
from tests.unit.permanent import permanent

PERMANENT: list[Exception] = [
    AuthenticationError("No."),
    NotFoundError("None."),
    UncertainDeliveryError("Perhaps."),
    InvalidArgumentError("Never."),
    InvalidIsbnError("1", "too short"),
    InvalidSourceError("No list."),
]
OTHERS: list[Exception] = [
    ServiceUnavailableError("Later."),
    RateLimitedError("Slower.", retry_after=30),
    MediaOpsError("Who knows."),
    OSError("The disk is full."),
    json.JSONDecodeError("Expecting value", "", 0),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ValueError("I/O operation on closed file."),
]


def task() -> CaptureHotThreadsOperator:
    return CaptureHotThreadsOperator(task_id="capture", destination="/out/report.txt")


def decide(error: Exception, **settings: Any) -> Any:
    given = CaptureHotThreadsOperator(task_id="capture", destination="/out/report.txt", **settings)
    policy: Any = given.retry_policy
    return policy.evaluate(error, 1, 5, {"task": given})


def asked(seconds: float) -> RateLimitedError:
    return RateLimitedError("Slower.", service="search cluster", retry_after=seconds)


@pytest.mark.airflow(">=3.3")
class TestWithRetryPolicies:
    @pytest.mark.parametrize("error", PERMANENT)
    def test_a_permanent_error_fails_the_task_at_once(self, error: Exception) -> None:
        decision = decide(error)
        assert decision.action.name == "FAIL"
        assert type(error).__name__ in decision.reason

    def test_the_longer_of_the_services_pause_and_the_tasks_own_delay_counts(self) -> None:
        own = timedelta(minutes=1)
        assert decide(asked(60), retry_delay=own).action.name == "DEFAULT"
        decision = decide(asked(61), retry_delay=own)
        assert (decision.action.name, decision.retry_delay) == ("RETRY", timedelta(seconds=61))

    @pytest.mark.parametrize("seconds", [86_401.0, 366 * 86_400.0, float("inf")])
    def test_no_service_parks_a_task_for_more_than_a_day(self, seconds: float) -> None:
        assert decide(asked(seconds)).retry_delay == timedelta(days=1)

    def test_without_a_context_the_pause_is_followed(self) -> None:
        policy: Any = task().retry_policy
        assert policy.evaluate(asked(5), 1, 5).retry_delay == timedelta(seconds=5)

    @pytest.mark.parametrize(
        "error",
        [ServiceUnavailableError("Later."), *(error for error in OTHERS if isinstance(error, (OSError, ValueError)))],
    )
    def test_the_rest_follows_the_tasks_own_settings(self, error: Exception) -> None:
        assert decide(error).action.name == "DEFAULT"

    def test_operators_and_sensors_have_it_unless_they_are_given_another(self) -> None:
        policy: Any = type(task().retry_policy)
        own = policy()
        given = CaptureHotThreadsOperator(task_id="capture", destination="/out/report.txt", retry_policy=own)
        assert given.retry_policy is own
        assert type(ClusterCpuSensor(task_id="watch").retry_policy) is policy


@pytest.mark.parametrize("error", [*PERMANENT, *OTHERS])
def test_error_keeps_its_type_unless_nothing_else_stops_the_retries(error: Exception) -> None:
    kind = permanent(type(error)) if error in PERMANENT else type(error)
    with pytest.raises(kind, match=re.escape(str(error))) as caught, ending_task():
        raise error
    assert error in (caught.value, caught.value.__cause__)
    assert caught.value is error or kind is AirflowFailException


@pytest.mark.parametrize(
    ("values", "templated"),
    [
        (["{{ ds }}"], True),
        (["{% if a %}b{% endif %}"], True),
        ([None, 3, "plain", ["a", "b"], ("c",)], False),
        (["plain", ["a", ("{{ b }}",)]], True),
        (["{ no template }"], False),
        ([ObjectStoragePath("s3://bucket/{{ ds }}/books.csv")], True),
        ([], False),
    ],
)
def test_a_template_is_told_from_a_plain_value(values: list[Any], *, templated: bool) -> None:
    assert is_templated(*values) is templated


def test_result_of_another_task_is_a_template() -> None:
    class Other(BaseOperator):
        def execute(self, context: Any) -> str:
            return "node-1"

    output = Other(task_id="other").output
    assert is_templated(output)
