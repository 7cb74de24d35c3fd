"""How an error ends a task, with Airflow's retry policies and without."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator, ObjectStoragePath

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    MediaOpsError,
    NotFoundError,
    RateLimitedError,
    ServiceUnavailableError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.task_failure import ending_task, is_end_templated, is_templated

PERMANENT: list[Exception] = [
    AuthenticationError("No."),
    NotFoundError("None."),
    UncertainDeliveryError("Perhaps."),
    ValueError("Never."),
]
OTHERS: list[Exception] = [
    ServiceUnavailableError("Later."),
    RateLimitedError("Slower.", retry_after=30),
    MediaOpsError("Who knows."),
    OSError("The disk is full."),
]


def task() -> CaptureHotThreadsOperator:
    return CaptureHotThreadsOperator(task_id="capture", destination="/out/report.txt")


def decide(error: Exception) -> Any:
    policy: Any = task().retry_policy
    return policy.evaluate(error, 1, 5)


@pytest.mark.airflow(">=3.3")
class TestWithRetryPolicies:
    @pytest.mark.parametrize("error", PERMANENT)
    def test_a_permanent_error_fails_the_task_at_once(self, error: Exception) -> None:
        decision = decide(error)
        assert decision.action.name == "FAIL"
        assert type(error).__name__ in decision.reason

    def test_the_pause_that_the_service_asked_for_becomes_the_retry_delay(self) -> None:
        error = RateLimitedError("Slower.", service="search cluster", retry_after=30)
        decision = decide(error)
        assert decision.action.name == "RETRY"
        assert decision.retry_delay == timedelta(seconds=30)

    @pytest.mark.parametrize("error", [ServiceUnavailableError("Later."), OSError("The disk is full.")])
    def test_the_rest_follows_the_tasks_own_settings(self, error: Exception) -> None:
        assert decide(error).action.name == "DEFAULT"

    def test_operators_and_sensors_have_it_unless_they_are_given_another(self) -> None:
        policy: Any = type(task().retry_policy)
        own = policy()
        given = CaptureHotThreadsOperator(task_id="capture", destination="/out/report.txt", retry_policy=own)
        assert given.retry_policy is own
        assert type(ClusterCpuSensor(task_id="watch").retry_policy) is policy

    @pytest.mark.parametrize("error", [*PERMANENT, *OTHERS])
    def test_errors_keep_their_type(self, error: Exception) -> None:
        with pytest.raises(type(error)) as caught, ending_task():
            raise error
        assert caught.value is error


@pytest.mark.airflow("<3.3")
class TestWithoutRetryPolicies:
    @pytest.mark.parametrize("error", PERMANENT)
    def test_a_permanent_error_spends_no_retry(self, error: Exception) -> None:
        with pytest.raises(AirflowFailException, match=str(error)) as caught, ending_task():
            raise error
        assert caught.value.__cause__ is error

    @pytest.mark.parametrize("error", OTHERS)
    def test_other_errors_keep_their_type(self, error: Exception) -> None:
        with pytest.raises(type(error)) as caught, ending_task():
            raise error
        assert caught.value is error


@pytest.mark.parametrize(
    ("values", "templated"),
    [
        (["{{ ds }}"], True),
        (["{% if a %}b{% endif %}"], True),
        ([None, 3, "plain", ["a", "b"], ("c",)], False),
        (["plain", ["a", ("{{ b }}",)]], True),
        (["{ no template }"], False),
        ([], False),
    ],
)
def test_a_template_is_told_from_a_plain_value(values: list[Any], *, templated: bool) -> None:
    assert is_templated(*values) is templated


@pytest.mark.parametrize(
    ("path", "templated"),
    [
        ("{{ path }}", True),
        ("a.csv/{{ name }}", True),
        ("{{ a.b }}{% if c %}.csv{% endif %}", True),
        ("{{ name }}_of_today", True),
        ("{{ name }}.csv", False),
        ("{% if a %}b{% endif %}/books", False),
        ("plain", False),
        (ObjectStoragePath("s3://bucket/{{ ds }}/books.csv"), False),
    ],
)
def test_a_suffix_that_is_known_is_told_from_one_that_is_not(path: object, *, templated: bool) -> None:
    assert is_end_templated(path) is templated


def test_what_another_task_returns_is_a_template() -> None:
    class Other(BaseOperator):
        def execute(self, context: Any) -> str:
            return "node-1"

    output = Other(task_id="other").output
    assert is_templated(output)
    assert is_end_templated(output)
