"""How an error ends a task, with Airflow's retry policies and without."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator, ObjectStoragePath

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
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.sensors.video import SubscriptionSensor
from airflow_provider_mediaops.storage.source_file import InvalidSourceError
from airflow_provider_mediaops.task_failure import ending_task, is_end_templated, is_templated
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


def decide(error: Exception, try_number: int = 1, **settings: Any) -> Any:
    given = CaptureHotThreadsOperator(task_id="capture", destination="/out/report.txt", **settings)
    policy: Any = given.retry_policy
    return policy.evaluate(error, try_number, 5, {"task": given})


def asked(seconds: float) -> RateLimitedError:
    return RateLimitedError("Slower.", service="search cluster", retry_after=seconds)


@pytest.mark.airflow(">=3.3")
class TestWithRetryPolicies:
    @pytest.mark.parametrize("error", PERMANENT)
    def test_a_permanent_error_fails_the_task_at_once(self, error: Exception) -> None:
        decision = decide(error)
        assert decision.action.name == "FAIL"
        assert type(error).__name__ in decision.reason

    @pytest.mark.parametrize(
        ("try_number", "settings", "least"),
        [
            (1, {"retry_exponential_backoff": 2.0}, 60),
            (4, {"retry_exponential_backoff": True}, 480),
            (4, {"retry_exponential_backoff": 3.0}, 1_620),
            (4, {"retry_exponential_backoff": 2.0, "max_retry_delay": timedelta(seconds=100)}, 100),
            (4, {"retry_exponential_backoff": 0}, 60),
            (4, {"max_retry_delay": timedelta(seconds=10)}, 60),
        ],
    )
    def test_the_longer_of_the_services_pause_and_the_tasks_own_delay_counts(
        self, try_number: int, settings: dict[str, Any], least: int
    ) -> None:
        settings = {"retry_delay": timedelta(minutes=1), **settings}
        assert decide(asked(least), try_number, **settings).action.name == "DEFAULT"
        decision = decide(asked(least + 1), try_number, **settings)
        assert (decision.action.name, decision.retry_delay) == ("RETRY", timedelta(seconds=least + 1))

    def test_a_delay_that_grows_beyond_all_numbers_is_as_long_as_airflow_allows(self) -> None:
        settings: dict[str, Any] = {"retry_delay": timedelta(minutes=1), "retry_exponential_backoff": 2.0}
        assert decide(asked(86_400), 5_000, **settings).action.name == "DEFAULT"

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


def test_result_of_another_task_is_a_template() -> None:
    class Other(BaseOperator):
        def execute(self, context: Any) -> str:
            return "node-1"

    output = Other(task_id="other").output
    assert is_templated(output)
    assert is_end_templated(output)


@pytest.mark.parametrize(
    ("kind", "arguments", "default", "message"),
    [
        (CaptureHotThreadsOperator, {"destination": "/out/hot.txt"}, {"timeout": 3600}, "^timeout "),
        (ExportSubscriptionsOperator, {"destination": "/out/a.csv", "mine": True}, {"page_size": 1000}, "^page_size "),
        (ExportSubscriptionsOperator, {"destination": "/out/a.csv", "ids": "a"}, {"mine": True}, "not ids and mine"),
        (EnrichIsbnsOperator, {"destination": "/out/a.csv", "isbns": "1"}, {"format": "xml"}, "^format "),
        (HotThreadsDigestOperator, {"destination": "/out/a.html", "source": "/in"}, {"since": "monday"}, "^since "),
        (PostBulletinOperator, {"text": "a"}, {"on_uncertain": "skip"}, "^on_uncertain "),
        (ClusterCpuSensor, {}, {"nodes": ["a", ""]}, "^nodes "),
        (SubscriptionSensor, {"channel_id": "a"}, {"mine": True}, "not channel_id and mine"),
    ],
)
def test_argument_of_the_dags_default_args_is_named_as_one_whichever_task_it_is(
    kind: Any, arguments: dict[str, Any], default: dict[str, Any], message: str
) -> None:
    (name,) = default
    words = rf"{message}.* This task has its {name} from default_args: set {name} on the task itself\.$"
    with DAG("dag", schedule=None, default_args=default), pytest.raises(InvalidArgumentError, match=words):
        kind(task_id="t", **arguments)
