"""Whether a task waits in the triggerer, how soon it may resume, and the events that it resumes with."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidReplyError, MediaOpsError, RateLimitedError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.triggers.cluster import CpuSensorTrigger
from airflow_provider_mediaops.triggers.deferral import done_event, error_event, summary_of, value_of
from tests.unit.scripted_cluster import CONN_ID, ScriptedCluster
from tests.unit.sensor_forms import a_day, first_event
from tests.unit.virtual_time import START, in_virtual_time


class TestSettled:
    """apache/airflow#71580: a task that resumes within seconds of its deferral may be failed."""

    @pytest.mark.parametrize(
        ("trigger_id", "sustained_for", "seconds"),
        [(7, 2, 10), (7, 20, 20), (None, 2, 2)],
        ids=["event held back", "longer wait", "no scheduler"],
    )
    def test_event_comes_ten_seconds_after_the_deferral_where_there_is_a_scheduler(
        self, cluster: ScriptedCluster, trigger_id: int | None, sustained_for: int, seconds: int
    ) -> None:
        cluster.cpu["node-1"] = 99.0
        watch = {"threshold": 85, "sustained_for": sustained_for}
        trigger = CpuSensorTrigger(conn_id=CONN_ID, watch=watch, **a_day(1))
        trigger.trigger_id = trigger_id

        async def run() -> float:
            assert value_of(await first_event(trigger))
            return asyncio.get_running_loop().time() - START

        assert in_virtual_time(run()) == seconds
        assert cluster.times[-1] == START + sustained_for


class TestEvent:
    @pytest.mark.parametrize(
        "event",
        [None, {}, [], "done", 3, {"status": "later"}, {"status": "error"}, {"status": "error", "error": "x"}],
    )
    @pytest.mark.parametrize("read", [value_of, summary_of])
    def test_event_of_another_version_is_reported(self, read: Any, event: Any) -> None:
        with pytest.raises(InvalidReplyError, match="this version of the provider cannot read"):
            read(event)

    @pytest.mark.parametrize("value", [None, [], "rows", 3])
    def test_value_that_is_no_summary_is_reported(self, value: Any) -> None:
        assert value_of(done_event(value)) == value
        with pytest.raises(InvalidReplyError, match=r"cannot read \(version=1\)"):
            summary_of(done_event(value))

    def test_summary_and_error_are_what_was_sent(self) -> None:
        assert summary_of(done_event({"rows": 2})) == {"rows": 2}
        with pytest.raises(RateLimitedError, match="too often") as caught:
            summary_of(error_event(RateLimitedError("too often", retry_after=9.0)))
        assert caught.value.retry_after == 9.0

    @pytest.mark.parametrize("event", ["done", {"status": "done", "value": None}])
    @pytest.mark.parametrize("kind", [ExportSubscriptionsOperator, EnrichIsbnsOperator, CaptureHotThreadsOperator])
    def test_task_that_resumes_with_one_that_it_cannot_read_fails_with_an_error_of_the_provider(
        self, kind: type[Any], event: Any, tmp_path: Any
    ) -> None:
        own: dict[str, Any] = {"mine": True} if kind is ExportSubscriptionsOperator else {}
        own |= {"isbns": ["9780140328721"]} if kind is EnrichIsbnsOperator else {}
        suffix = "txt" if kind is CaptureHotThreadsOperator else "jsonl"
        task = kind(task_id="task", destination=f"{tmp_path}/result.{suffix}", deferrable=True, **own)
        with pytest.raises(Exception, match="cannot read") as caught:
            task.execute_complete({}, event)
        assert isinstance(caught.value.__cause__ or caught.value, MediaOpsError)
