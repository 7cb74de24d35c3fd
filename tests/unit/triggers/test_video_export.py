"""Exports in the triggerer: the whole listing, errors, and the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidConnectionError,
    InvalidReplyError,
    ServiceUnavailableError,
    StorageError,
    TemporaryError,
)
from airflow_provider_mediaops.http.exchange import Response
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.triggers.deferral import value_of
from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger
from tests.unit.sensor_forms import first_event
from tests.unit.triggers.exports import (
    OWNER,
    Platform,
    dataset,
    exported,
    ids,
    is_free,
    refusal,
    trigger,
)
from tests.unit.triggers.exports import lines as lines  # noqa: PLC0414 a fixture
from tests.unit.triggers.exports import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.triggers.watched_stage import HalfWritten, threads_of
from tests.unit.until import until
from tests.unit.video_platform import page_reply, subscription

if TYPE_CHECKING:
    from pathlib import Path


class TestEvent:
    def test_it_has_the_summary(self, platform: Platform, lines: list[str], tmp_path: Path) -> None:
        platform.replies = [page_reply(1, 2, token="T2"), page_reply(2, 3, token="T3"), page_reply(4)]
        summary = exported(trigger(tmp_path))

        file = tmp_path / "subs.jsonl"
        assert [json.loads(line) for line in file.read_text().splitlines()] == list(map(subscription, (1, 2, 3, 4)))
        assert summary == {
            "path": str(file),
            "rows": 4,
            "pages": 3,
            "duplicates": 1,
            "restarts": 0,
            "complete": True,
            "resumed": False,
            "bytes": file.stat().st_size,
        }
        assert platform.open == 0
        start = f"INFO: Exporting the subscriptions of the authorised user to {file}: pages of 50, no rate set,"
        assert lines == [f"{start} from the start.", f"INFO: Wrote 4 subscriptions of 3 pages to {file}."]

    @pytest.mark.parametrize(
        ("answer", "kind"),
        [
            (refusal(401, "authError"), AuthenticationError),
            (Response(200, {}, b"[]"), InvalidReplyError),
            (refusal(503, "backendError"), ServiceUnavailableError),
        ],
    )
    def test_an_error_keeps_its_class_and_what_is_saved_stays(
        self, platform: Platform, lines: list[str], tmp_path: Path, answer: Response, kind: type[Exception]
    ) -> None:
        platform.replies = [page_reply(1, token="T2"), answer]
        with pytest.raises(kind):
            exported(trigger(tmp_path))

        assert lines[-1] == "INFO: Kept 1 subscriptions of 1 pages for the next attempt."
        assert not (tmp_path / "subs.jsonl").exists()
        platform.replies = [page_reply(2)]
        assert exported(trigger(tmp_path))["resumed"] is True
        assert ids(tmp_path) == ["sub-1", "sub-2"]

    def test_a_connection_that_is_missing_is_reported(self, platform: Platform, tmp_path: Path) -> None:
        made = trigger(tmp_path)
        made.conn_id = "missing"
        with pytest.raises(InvalidConnectionError, match="There is no connection 'missing'"):
            exported(made)
        assert is_free(tmp_path)
        assert not platform.asked

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

    def test_so_are_missing_ones(self) -> None:
        with pytest.raises(TemporaryError, match="Another version of this provider made this trigger"):
            exported(ExportSubscriptionsTrigger(conn_id="video_1", export={}, settled_after=0))

    def test_a_listing_that_must_be_complete_and_is_not_fails(self, platform: Platform, tmp_path: Path) -> None:
        platform.replies = [page_reply(1, token="T1"), page_reply(2, token="T1")]
        with pytest.raises(InvalidReplyError, match="cut the listing short after 2 pages"):
            exported(trigger(tmp_path, require_complete=True))

    def test_a_file_with_the_same_content_stays(self, platform: Platform, lines: list[str], tmp_path: Path) -> None:
        for run in ("one", "two"):
            platform.replies = [page_reply(1)]
            owner = asdict(Owner(f"dag/{run}/export/-1", "digest"))
            summary = exported(trigger(tmp_path, if_changed=True, owner=owner))
        assert summary["changed"] is False
        assert lines[-1].startswith("INFO: Nothing has changed in 1 subscriptions of 1 pages")

    def test_airflow_has_ten_seconds_to_notice_the_deferral(self) -> None:
        assert ExportSubscriptionsTrigger(conn_id="c", export={}).serialize()[1]["settled_after"] == 10


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

    @pytest.mark.parametrize("method", ["__init__", "append"])
    async def test_a_cancelled_trigger_waits_for_what_is_half_written(
        self, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        step = HalfWritten(monkeypatch, method)
        platform.replies = [page_reply(1, token="T2")]
        running = asyncio.ensure_future(first_event(trigger(tmp_path)))
        await until(step.begun.is_set)
        await step.outlasts(running, cancellations=1)

        assert step.done[0] == method
        assert step.done[-1] == "close"
        # So the next attempt finds it free.
        with dataset(tmp_path).staging(OWNER) as staging:
            assert staging.rows == (method == "append")

    @pytest.mark.parametrize("method", ["__init__", "append", "publish"])
    async def test_so_does_one_that_is_cancelled_again_and_again(
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
