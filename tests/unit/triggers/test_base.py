"""What all triggers of tasks share: rows of another version, faults of this program, and being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from airflow_provider_mediaops.cluster.capture.plan import CapturePlan, TakenFor
from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.triggers.base import value_of
from airflow_provider_mediaops.triggers.books import EnrichmentTrigger
from airflow_provider_mediaops.triggers.cluster import CaptureHotThreadsTrigger
from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger, SubscriptionTrigger
from airflow_provider_mediaops.video.arguments import SubscriptionQuery
from tests.unit.log_lines import log_lines
from tests.unit.sensor_forms import a_day, first_event
from tests.unit.triggers.exports import OWNER, Platform
from tests.unit.until import until
from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

PLAN = CapturePlan(query=HotThreadsQuery(), watch=CpuWatch(85)).to_dict()


def watch(**odd: Any) -> SubscriptionTrigger:
    return SubscriptionTrigger(**{"conn_id": "video_1", "watch": {"mine": True}, **a_day(), **odd})


def export(**odd: Any) -> ExportSubscriptionsTrigger:
    query = asdict(SubscriptionQuery(mine=True))
    usual = {"owner": asdict(OWNER), "destination": "/out/subs.jsonl", "query": query}
    return ExportSubscriptionsTrigger(conn_id="video_1", work={**usual, **odd})


def enrichment(**odd: Any) -> EnrichmentTrigger:
    usual = {"owner": asdict(OWNER), "destination": "/out/books.jsonl", "total": 5, "source": ["/in/isbns.txt"]}
    return EnrichmentTrigger(conn_id="video_1", work={**usual, **odd})


def capture(**odd: Any) -> CaptureHotThreadsTrigger:
    usual = {"conn_id": "video_1", "plan": PLAN, "destination": "/out/hot.txt", "formats": ["txt"], "deadline": 1e12}
    return CaptureHotThreadsTrigger(**{**usual, "taken_for": asdict(TakenFor("dag", "run", "task", 1)), **odd})


@pytest.mark.parametrize(
    ("make", "odd"),
    [
        (watch, {"watch": {"of_another_version": 1}}),
        (watch, {"watch": {"mine": "many"}}),
        (watch, {"pace": {"of_another_version": 1}}),
        (export, {"of_another_version": 1}),
        (export, {"owner": {"of": "another version"}}),
        (export, {"destination": "subs.xlsx"}),
        (export, {"query": {"mine": True, "by_mood": "good"}}),
        (export, {"query": None}),
        (enrichment, {"of_another_version": 1}),
        (enrichment, {"owner": {"of": "another version"}}),
        (enrichment, {"destination": "books.xlsx"}),
        (capture, {"plan": {}}),
        (capture, {"plan": {**PLAN, "of_another_version": 1}}),
        (capture, {"plan": {**PLAN, "captures": 0}}),
        (capture, {"plan": None}),
        (capture, {"taken_for": None}),
        (capture, {"taken_for": {"of_another_version": 1}}),
        (capture, {"formats": []}),
        (capture, {"deadline": "soon"}),
    ],
)
def test_row_of_another_version_is_a_temporary_error_and_nothing_is_asked(
    platform: Platform, make: Callable[..., BaseTrigger], odd: dict[str, Any]
) -> None:
    with pytest.raises(TemporaryError, match="Another version of this provider made this trigger"):
        value_of(in_virtual_time(first_event(make(**odd))))
    assert not platform.asked


def failing(fault: Exception) -> Callable[[], NoReturn]:
    def fail() -> NoReturn:
        raise fault

    return fail


@pytest.mark.parametrize("fault", [ValueError("s3cr3t"), KeyError("s3cr3t")])
def test_a_fault_of_this_program_is_retried_with_its_traceback_in_the_log(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    lines = log_lines(monkeypatch, SubscriptionTrigger)
    platform.replies = [failing(fault)]
    with pytest.raises(TemporaryError, match=rf"unexpected {type(fault).__name__}\.") as caught:
        value_of(in_virtual_time(first_event(watch())))
    assert "s3cr3t" not in str(caught.value)
    assert lines == ["ERROR: The trigger ended with an unexpected error. (with a traceback)"]


async def test_being_cancelled_closes_the_session(platform: Platform) -> None:
    running = asyncio.ensure_future(first_event(watch()))
    await until(lambda: bool(platform.asked))
    assert platform.open == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert platform.open == 0


@pytest.mark.airflow(">=3.2")
def test_a_tasks_trigger_keeps_to_the_tasks_queue() -> None:
    assert all(make().supports_triggerer_queue for make in (watch, export, enrichment, capture))
