"""Exports in the triggerer: errors, the event loop, long waits and restarts; what is written is in unit/operators."""

from __future__ import annotations

import asyncio
import re
import threading
from datetime import datetime, timezone, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError, StorageError
from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger
from airflow_provider_mediaops.video.export import ExportAttempt
from tests.unit.log_lines import log_lines
from tests.unit.sensor_forms import first_event
from tests.unit.triggers.exports import OWNER, SPENT, Platform, dataset, exported, ids, is_free, refusal, trigger
from tests.unit.triggers.watched_stage import HalfWritten
from tests.unit.until import until
from tests.unit.video_platform import connection, page_reply

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.conftest import Supervisor


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return log_lines(monkeypatch, ExportSubscriptionsTrigger)


def test_a_destination_that_cannot_be_written_is_reported(platform: Platform, tmp_path: Path) -> None:
    (tmp_path / "subs.jsonl").mkdir()
    with pytest.raises(StorageError, match="cannot be written: it is a folder"):
        exported(trigger(tmp_path))
    assert not platform.asked


class TestEventLoop:
    @pytest.mark.long
    @pytest.mark.parametrize("method", ["__init__", "append", "publish"])
    async def test_trigger_that_is_cancelled_again_and_again_waits_for_what_is_half_written(
        self, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        """Airflow cancels a trigger each second until it has ended."""
        step = HalfWritten(monkeypatch, method)
        platform.replies = [page_reply(1)]
        running = asyncio.ensure_future(first_event(trigger(tmp_path)))
        await until(step.begun.is_set)
        await step.outlasts(running, cancellations=3)
        assert (step.done[0], step.done[-1]) == (method, "close")
        assert is_free(tmp_path)

    @pytest.mark.long
    @pytest.mark.parametrize("method", ["__init__", "append", "publish"])
    def test_trigger_whose_triggerer_ends_waits_for_what_is_half_written(
        self, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        """Its event loop then cancels all tasks, also those that wait for a thread."""
        step = HalfWritten(monkeypatch, method)
        platform.replies = [page_reply(1)]

        async def triggerer() -> None:
            running = asyncio.ensure_future(first_event(trigger(tmp_path)))
            await until(step.begun.is_set)
            asyncio.get_running_loop().call_later(0.05, step.may_end.set)
            assert not running.done()

        asyncio.run(triggerer())
        assert (step.done[0], step.done[-1]) == (method, "close")
        assert is_free(tmp_path)

    async def test_trigger_that_is_cancelled_as_its_attempt_begins_aborts_it(
        self, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make, begun, go_on, aborted = ExportAttempt.__init__, threading.Event(), threading.Event(), list[object]()

        def slowly(*arguments: Any) -> None:
            begun.set()
            assert go_on.wait(240)
            make(*arguments)

        def abort(attempt: ExportAttempt) -> None:
            aborted.append(attempt)

        monkeypatch.setattr(ExportAttempt, "__init__", slowly)
        monkeypatch.setattr(ExportAttempt, "abort", abort)
        running = asyncio.ensure_future(first_event(trigger(tmp_path)))
        await until(begun.is_set)
        running.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(aborted) == 1
        assert not platform.asked

    async def test_a_trigger_that_is_cancelled_while_it_meets_an_error_lets_go_of_the_destination(
        self, platform: Platform, tmp_path: Path
    ) -> None:
        def refuse() -> Response:
            running.cancel()
            return refusal(403, "forbidden")

        platform.replies = [refuse]
        running = asyncio.ensure_future(first_event(trigger(tmp_path)))
        # What is kept of the error keeps all that it has passed alive.
        with pytest.raises(asyncio.CancelledError) as caught:
            await running
        assert is_free(tmp_path), caught


class _Noon(datetime):
    """A clock at noon in California: the quota is reset at midnight there."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> _Noon:
        assert tz is timezone.utc
        return cls(2026, 11, 22, 20, tzinfo=tz)


class TestLongWaits:
    def test_a_quota_that_is_spent_is_waited_for_until_its_reset(
        self, platform: Platform, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("airflow_provider_mediaops.http.exchange.datetime", _Noon)
        platform.replies = [page_reply(1, 2, token="T2"), SPENT, page_reply(2, 3, token="T3"), page_reply(4)]
        summary = exported(trigger(tmp_path))

        assert platform.pages == [None, "T2", "T2", "T3"]
        times = [at for at, _ in platform.asked]
        assert 12 * 3600 <= times[2] - times[1] - 1 <= 12 * 3600 + 60
        assert ids(tmp_path) == ["sub-1", "sub-2", "sub-3", "sub-4"]
        assert (summary["resumed"], summary["duplicates"], summary["pages"]) == (True, 1, 3)
        [waiting] = [line for line in lines if "Waiting in the triggerer until" in line]
        assert re.search(r" UTC \(12 h [01] min\): .* with 403 quotaExceeded: ", waiting)
        assert "INFO: Kept 2 subscriptions of 1 page for the next attempt." in lines

    def test_after_a_wait_the_connection_is_read_again(
        self, platform: Platform, supervisor: Supervisor, tmp_path: Path
    ) -> None:
        def spent_and_replaced() -> Response:
            supervisor.connect("video_1", connection("https://video.example", password="the-next-token"))
            return SPENT

        platform.replies = [spent_and_replaced, page_reply(1)]
        exported(trigger(tmp_path))
        assert platform.tokens == ["Bearer token-of-the-tests", "Bearer the-next-token"]


class TestRestart:
    def test_a_trigger_that_was_taken_for_dead_returns_what_the_newer_one_publishes(
        self, platform: Platform, lines: list[str], tmp_path: Path
    ) -> None:
        newer = list[Any]()

        def superseded() -> Response:
            newer.append(dataset(tmp_path).staging(OWNER))
            staging = newer[0].__enter__()
            staging.summary = {"pages": 0, "by": "the newer one"}
            asyncio.get_running_loop().call_later(100, newer[0].__exit__, None, None, None)
            return page_reply(1)

        platform.replies = [superseded]
        assert exported(trigger(tmp_path))["by"] == "the newer one"
        assert [line for line in lines if "Waiting for the newer attempt: " in line]
        assert ids(tmp_path) == []

    def test_a_trigger_that_was_taken_for_dead_does_not_wait_for_ever(self, platform: Platform, tmp_path: Path) -> None:
        def superseded() -> Response:
            dataset(tmp_path).check(OWNER)
            return page_reply(1)

        platform.replies = [superseded]
        with pytest.raises(DestinationInUseError, match="by another attempt of this task"):
            exported(trigger(tmp_path))
        assert platform.pages == [None]
