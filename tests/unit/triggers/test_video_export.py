"""Exports in the triggerer: errors, and the event loop; what both forms write is in tests/unit/operators."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    StorageError,
    TemporaryError,
)
from airflow_provider_mediaops.triggers.deferral import value_of
from tests.unit.sensor_forms import first_event
from tests.unit.triggers.exports import (
    Platform,
    exported,
    is_free,
    refusal,
    trigger,
)
from tests.unit.triggers.exports import lines as lines  # noqa: PLC0414 a fixture
from tests.unit.triggers.exports import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.triggers.watched_stage import HalfWritten, threads_of
from tests.unit.until import until
from tests.unit.video_platform import page_reply

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.http.exchange import Response


class TestEvent:
    def test_a_destination_that_cannot_be_written_is_reported(self, platform: Platform, tmp_path: Path) -> None:
        (tmp_path / "subs.jsonl").mkdir()
        with pytest.raises(StorageError, match="cannot be written: it is a folder"):
            exported(trigger(tmp_path))
        assert not platform.asked

    @pytest.mark.parametrize(
        "odd",
        [
            {"owner": {"of": "another version"}},
            {"destination": "subs.xlsx"},
            {"query": {"mine": True, "by_mood": "good"}},
            {"query": None},
            {"csv_formulas": "shout"},
            {"of_another_version": 1},
        ],
    )
    def test_arguments_of_another_version_are_reported(self, platform: Platform, tmp_path: Path, odd: Any) -> None:
        with pytest.raises(TemporaryError, match="Another version of this provider made this trigger"):
            exported(trigger(tmp_path, **odd))
        assert not platform.asked


class TestEventLoop:
    @pytest.mark.parametrize("method", ["__init__", "append", "publish", "close"])
    async def test_files_are_worked_on_in_other_threads(
        self, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        threads = threads_of(monkeypatch, method)
        platform.replies = [page_reply(1)]
        assert value_of(await asyncio.wait_for(first_event(trigger(tmp_path)), 240))["rows"] == 1
        assert threads
        assert threading.get_ident() not in threads

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

    @pytest.mark.parametrize("method", ["__init__", "append", "publish"])
    def test_so_does_one_whose_triggerer_ends(
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
