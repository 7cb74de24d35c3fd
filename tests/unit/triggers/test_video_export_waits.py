"""Exports in the triggerer: long waits, their ends, and resuming after a restart."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    DestinationInUseError,
    QuotaExceededError,
)
from tests.unit.triggers.exports import (
    OWNER,
    SPENT,
    Platform,
    dataset,
    exported,
    ids,
    is_free,
    trigger,
)
from tests.unit.triggers.exports import lines as lines  # noqa: PLC0414 a fixture
from tests.unit.triggers.exports import platform as platform  # noqa: PLC0414 a fixture
from tests.unit.video_platform import connection, page_reply

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.conftest import Supervisor


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
        monkeypatch.setattr("airflow_provider_mediaops.http.clock.datetime", _Noon)
        platform.replies = [page_reply(1, 2, token="T2"), SPENT, page_reply(2, 3, token="T3"), page_reply(4)]
        summary = exported(trigger(tmp_path))

        assert platform.pages == [None, "T2", "T2", "T3"]
        times = [at for at, _ in platform.asked]
        assert 12 * 3600 <= times[2] - times[1] - 1 <= 12 * 3600 + 60
        assert ids(tmp_path) == ["sub-1", "sub-2", "sub-3", "sub-4"]
        assert (summary["resumed"], summary["duplicates"], summary["pages"]) == (True, 1, 3)
        [waiting] = [line for line in lines if "Waiting in the triggerer until" in line]
        assert re.search(r" UTC \(12 h [01] min\): .* with 403 quotaExceeded: ", waiting)

    def test_nothing_is_held_during_a_wait(
        self, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        platform.replies = [page_reply(1, token="T2"), SPENT, page_reply(2)]
        sleep, held = asyncio.sleep, list[tuple[bool, int]]()

        async def watching(seconds: float, *result: Any) -> Any:
            if seconds > 10:
                held.append((is_free(tmp_path), platform.open))
            return await sleep(seconds, *result)

        monkeypatch.setattr("airflow_provider_mediaops.triggers.dataset.asyncio.sleep", watching)
        exported(trigger(tmp_path))
        assert held == [(True, 0)]

    def test_after_a_wait_the_connection_is_read_again(
        self, platform: Platform, supervisor: Supervisor, tmp_path: Path
    ) -> None:
        def spent_and_replaced() -> Response:
            supervisor.connect("video_1", connection("https://video.example", password="the-next-token"))
            return SPENT

        platform.replies = [spent_and_replaced, page_reply(1)]
        exported(trigger(tmp_path))
        assert platform.tokens == ["Bearer token-of-the-tests", "Bearer the-next-token"]

    def test_waits_that_lead_to_nothing_end_with_the_error(self, platform: Platform, tmp_path: Path) -> None:
        platform.replies = [page_reply(1, token="T2"), *[SPENT] * 5]
        with pytest.raises(QuotaExceededError) as caught:
            exported(trigger(tmp_path))
        assert caught.value.retry_after
        assert platform.pages == [None, *["T2"] * 5]
        # The last three looks come after 15 minutes, an hour and four hours.
        assert platform.asked[-1][0] - platform.asked[2][0] < 6 * 3_600


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
        with pytest.raises(DestinationInUseError, match="is being written by a newer attempt"):
            exported(trigger(tmp_path))
        assert platform.pages == [None]
