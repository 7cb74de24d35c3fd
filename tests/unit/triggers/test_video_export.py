"""Exports in the triggerer: the whole listing, long waits, their ends, and going on after a restart."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    DestinationInUseError,
    InvalidConnectionError,
    InvalidReplyError,
    QuotaExceededError,
    RateLimitedError,
    ServiceUnavailableError,
    StorageError,
    TemporaryError,
)
from airflow_provider_mediaops.http import async_transport as transport
from airflow_provider_mediaops.http.exchange import Request, Response
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.local import LocalStage
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.triggers.event import value_of
from airflow_provider_mediaops.triggers.video import ExportSubscriptionsTrigger
from airflow_provider_mediaops.video.api import VIDEO_RULES, SubscriptionQuery
from airflow_provider_mediaops.video.export import SUBSCRIPTIONS
from tests.unit.log_lines import log_lines
from tests.unit.sensor_forms import first_event, made_again
from tests.unit.video_platform import connection, error, page, subscription
from tests.unit.virtual_time import START, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.conftest import Supervisor

OWNER = Owner("dag/today/export/-1", "digest")
DAY = 86_400


def reply(*numbers: int, token: str | None = None) -> Response:
    return Response(200, {}, json.dumps(page(*numbers, next_token=token)).encode())


def refusal(status: int, reason: str, **headers: str) -> Response:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, fields, json.dumps(error(status, reason)).encode())


SPENT = refusal(403, "quotaExceeded")
REFUSED_TOKEN = refusal(400, "invalidPageToken")


@dataclass
class Platform:
    """
    A video platform at the other end of the transport.

    :param replies: what it answers, in order; a function is called for its reply.
    """

    replies: list[Response | Callable[[], Response]] = field(default_factory=list)
    asked: list[tuple[float, str | None]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    open: int = 0

    async def answer(self, request: Request) -> Response:
        sent = dict(request.params)
        self.asked.append((asyncio.get_running_loop().time() - START, sent.get("pageToken")))
        self.tokens.append(request.headers.get("Authorization", ""))
        # A reply takes a while, in which the trigger can be cancelled.
        await asyncio.sleep(1)
        assert self.replies, f"it is asked for more than was expected: {sent}"
        answer = self.replies.pop(0)
        return answer if isinstance(answer, Response) else answer()

    @property
    def pages(self) -> list[str | None]:
        """The page token of each request."""
        return [token for _, token in self.asked]


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor) -> Platform:
    platform = Platform()

    class Transport:
        def __init__(self, settings: object) -> None:
            platform.open += 1

        async def send(self, request: Request) -> Response:
            return await platform.answer(request)

        async def aclose(self) -> None:
            platform.open -= 1

    monkeypatch.setattr(transport, "AsyncTransport", Transport)
    supervisor.connect("video_1", connection("https://video.example"))
    return platform


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return log_lines(monkeypatch, ExportSubscriptionsTrigger)


def trigger(folder: Path, name: str = "subs.jsonl", **fields: Any) -> ExportSubscriptionsTrigger:
    query = SubscriptionQuery(mine=True, order="alphabetical", max_results=50)
    usual = {"owner": asdict(OWNER), "destination": f"{folder}/{name}", "query": asdict(query)}
    made = ExportSubscriptionsTrigger(conn_id="video_1", export={**usual, **fields}, settled_after=0)
    again = made_again(made)
    assert isinstance(again, ExportSubscriptionsTrigger)
    return again


def exported(made: ExportSubscriptionsTrigger) -> Any:
    return value_of(in_virtual_time(first_event(made)))


def dataset(folder: Path, name: str = "subs.jsonl") -> Dataset:
    return Dataset(f"{folder}/{name}", view=SUBSCRIPTIONS)


def ids(folder: Path) -> list[str]:
    return [json.loads(line)["id"] for line in (folder / "subs.jsonl").read_text(encoding="utf-8").splitlines()]


def is_free(folder: Path) -> bool:
    """Return whether nobody holds the destination; nothing that is saved is lost by this."""
    dataset(folder).check(OWNER)
    return True


class TestEvent:
    def test_it_has_the_summary(self, platform: Platform, lines: list[str], tmp_path: Path) -> None:
        platform.replies = [reply(1, 2, token="T2"), reply(2, 3, token="T3"), reply(4)]
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
        platform.replies = [reply(1, token="T2"), answer]
        with pytest.raises(kind):
            exported(trigger(tmp_path))

        assert lines[-1] == "INFO: Kept 1 subscriptions of 1 pages for the next attempt."
        assert not (tmp_path / "subs.jsonl").exists()
        platform.replies = [reply(2)]
        assert exported(trigger(tmp_path))["resumed"] is True
        assert ids(tmp_path) == ["sub-1", "sub-2"]

    def test_a_connection_that_is_missing_is_told(self, platform: Platform, tmp_path: Path) -> None:
        made = trigger(tmp_path)
        made.conn_id = "missing"
        with pytest.raises(InvalidConnectionError, match="There is no connection 'missing'"):
            exported(made)
        assert is_free(tmp_path)
        assert not platform.asked

    def test_a_destination_that_cannot_be_written_is_told(self, platform: Platform, tmp_path: Path) -> None:
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
        ],
    )
    def test_arguments_of_another_version_are_told(self, platform: Platform, tmp_path: Path, odd: Any) -> None:
        with pytest.raises(TemporaryError, match="Another version of this provider made this trigger"):
            exported(trigger(tmp_path, **odd))
        assert not platform.asked

    def test_so_are_missing_ones(self) -> None:
        with pytest.raises(TemporaryError, match="Another version of this provider made this trigger"):
            exported(ExportSubscriptionsTrigger(conn_id="video_1", export={}, settled_after=0))

    def test_those_of_a_later_version_do_no_harm(self, platform: Platform, tmp_path: Path) -> None:
        platform.replies = [reply(1)]
        assert exported(trigger(tmp_path, of_a_later_version=1))["rows"] == 1

    def test_a_listing_that_must_be_complete_and_is_not_fails(self, platform: Platform, tmp_path: Path) -> None:
        platform.replies = [reply(1, token="T1"), reply(2, token="T1")]
        with pytest.raises(InvalidReplyError, match="cut the listing short after 2 pages"):
            exported(trigger(tmp_path, require_complete=True))

    def test_a_file_with_the_same_content_stays(self, platform: Platform, lines: list[str], tmp_path: Path) -> None:
        for run in ("one", "two"):
            platform.replies = [reply(1)]
            owner = asdict(Owner(f"dag/{run}/export/-1", "digest"))
            summary = exported(trigger(tmp_path, if_changed=True, owner=owner))
        assert summary["changed"] is False
        assert lines[-1].startswith("INFO: Nothing has changed in 1 subscriptions of 1 pages")

    def test_airflow_has_ten_seconds_to_notice_the_deferral(self) -> None:
        assert ExportSubscriptionsTrigger(conn_id="c", export={}).serialize()[1]["settled_after"] == 10


class TestLongWaits:
    def test_a_quota_that_is_spent_is_waited_for_until_its_reset(
        self, platform: Platform, lines: list[str], tmp_path: Path
    ) -> None:
        now = datetime.now(timezone.utc)
        left = (VIDEO_RULES.quota_reset(now) - now).total_seconds()
        platform.replies = [reply(1, 2, token="T2"), SPENT, reply(2, 3, token="T3"), reply(4)]
        summary = exported(trigger(tmp_path))

        assert platform.pages == [None, "T2", "T2", "T3"]
        times = [at for at, _ in platform.asked]
        # By the real clock the reset is a little nearer when the reply is read; at midnight itself it is a day away.
        assert 0 <= times[2] - times[1] - 1 < DAY + 61
        if left > 600:
            assert left - 300 < times[2] - times[1] - 1 <= left + 60
        assert ids(tmp_path) == ["sub-1", "sub-2", "sub-3", "sub-4"]
        assert (summary["resumed"], summary["duplicates"], summary["pages"]) == (True, 1, 3)
        waiting = next(line for line in lines if "Waiting in the triggerer until" in line)
        assert waiting.endswith("(quotaExceeded).") or "quota" in waiting.partition("): ")[2]

    @pytest.mark.parametrize("name", ["subs.jsonl", "subs.csv", "subs.parquet"])
    def test_the_file_is_that_of_an_export_without_waits(self, platform: Platform, tmp_path: Path, name: str) -> None:
        pages = [reply(1, 2, token="T2"), reply(2, 3, token="T3"), reply(4)]
        platform.replies = [SPENT, pages[0], SPENT, pages[1], refusal(429, "rateLimitExceeded", retry_after="7200")]
        platform.replies += [pages[2]]
        waited = exported(trigger(tmp_path / "waited", name))
        platform.replies = list(pages)
        whole = exported(trigger(tmp_path / "whole", name))

        assert (tmp_path / "waited" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        same = {"path": "", "resumed": ""}
        assert {**waited, **same} == {**whole, **same}

    @pytest.mark.parametrize("status", [429, 503])
    def test_a_long_retry_after_is_waited_out(self, platform: Platform, tmp_path: Path, status: int) -> None:
        platform.replies = [refusal(status, "later", retry_after="5000"), reply(1)]
        exported(trigger(tmp_path))
        first, second = (at for at, _ in platform.asked)
        assert 5_025 <= second - first - 1 <= 5_060

    def test_nothing_is_held_during_a_wait(
        self, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        platform.replies = [reply(1, token="T2"), SPENT, reply(2)]
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

        platform.replies = [spent_and_replaced, reply(1)]
        exported(trigger(tmp_path))
        assert platform.tokens == ["Bearer token-of-the-tests", "Bearer the-next-token"]

    def test_a_page_token_that_expires_each_night_makes_the_listing_start_over_each_day(
        self, platform: Platform, tmp_path: Path
    ) -> None:
        day = [reply(1, 2, token="T2"), SPENT]
        platform.replies = [*day, *[REFUSED_TOKEN] * 4, *day, *[REFUSED_TOKEN] * 4, reply(1, 2, token="T3"), reply(3)]
        summary = exported(trigger(tmp_path))
        assert ids(tmp_path) == ["sub-1", "sub-2", "sub-3"]
        assert (summary["restarts"], summary["complete"]) == (2, True)

    def test_waits_that_lead_to_nothing_end_with_the_error(self, platform: Platform, tmp_path: Path) -> None:
        platform.replies = [reply(1, token="T2"), *[SPENT] * 5]
        with pytest.raises(QuotaExceededError) as caught:
            exported(trigger(tmp_path))
        assert caught.value.retry_after
        assert platform.pages == [None, *["T2"] * 5]
        # The last three looks come after 15 minutes, an hour and four hours.
        assert platform.asked[-1][0] - platform.asked[2][0] < 6 * 3_600

    def test_one_that_names_no_time_ends_the_attempt(self, platform: Platform, tmp_path: Path) -> None:
        platform.replies = [refusal(429, "rateLimitExceeded")]
        with pytest.raises(RateLimitedError):
            exported(trigger(tmp_path))

    def test_another_run_that_took_the_destination_meanwhile_is_not_mixed_in(
        self, platform: Platform, tmp_path: Path
    ) -> None:
        def taken() -> Response:
            # Right after this reply the export waits, and the other run begins and ends.
            asyncio.get_running_loop().call_later(100, other_run)
            return SPENT

        def other_run() -> None:
            with dataset(tmp_path).staging(Owner("dag/tomorrow/export/-1", "digest")) as staging:
                staging.commit([subscription(9)], {})

        platform.replies = [reply(1, token="T2"), taken, reply(1, token="T2"), reply(2)]
        summary = exported(trigger(tmp_path))
        assert platform.pages == [None, "T2", None, "T2"]
        assert (ids(tmp_path), summary["resumed"]) == (["sub-1", "sub-2"], False)


class TestRestart:
    @pytest.mark.parametrize(
        ("after", "requests"),
        [(0.5, 5), (1.5, 5), (2.1, 4), (2.7, 5), (3.7, 5)],
        ids=["first page", "refusal", "long wait", "second page", "third page"],
    )
    def test_a_restart_at_any_moment_costs_at_most_one_request(
        self, platform: Platform, tmp_path: Path, after: float, requests: int
    ) -> None:
        refused = list[bool]()
        pages = {None: reply(1, 2, token="T2"), "T2": reply(2, 3, token="T3"), "T3": reply(4)}

        async def answer(request: Request) -> Response:
            token = dict(request.params).get("pageToken")
            platform.asked.append((0, token))
            await asyncio.sleep(1)
            if token == "T2" and not refused:
                refused.append(True)
                return refusal(429, "rateLimitExceeded", retry_after="0.2")
            return pages[token]

        async def restarted() -> Any:
            running = asyncio.ensure_future(first_event(trigger(tmp_path)))
            await asyncio.wait([running], timeout=after)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert is_free(tmp_path)
            return await first_event(trigger(tmp_path))

        platform.answer = answer  # type: ignore[method-assign]
        assert value_of(in_virtual_time(restarted()))["rows"] == 4
        assert ids(tmp_path) == ["sub-1", "sub-2", "sub-3", "sub-4"]
        assert len(platform.asked) == requests
        assert platform.open == 0

    def test_what_was_published_before_is_not_done_again(self, platform: Platform, tmp_path: Path) -> None:
        platform.replies = [reply(1)]
        summary = exported(trigger(tmp_path))
        assert exported(trigger(tmp_path)) == summary
        assert len(platform.asked) == 1

    def test_a_triggerer_that_was_taken_for_dead_is_waited_for_but_not_for_ever(
        self, platform: Platform, lines: list[str], tmp_path: Path
    ) -> None:
        with dataset(tmp_path).staging(OWNER), pytest.raises(DestinationInUseError):
            exported(trigger(tmp_path))
        assert "Waiting for the destination: " in lines[0]
        assert len(lines) == 61
        assert not platform.asked


class TestEventLoop:
    @pytest.mark.parametrize("method", ["__init__", "append", "publish", "close"])
    async def test_files_are_worked_on_in_other_threads(
        self, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        threads: list[int] = []
        original: Callable[..., Any] = getattr(LocalStage, method)

        def noting(*arguments: Any) -> Any:
            threads.append(threading.get_ident())
            return original(*arguments)

        monkeypatch.setattr(LocalStage, method, noting)
        platform.replies = [reply(1)]
        assert value_of(await asyncio.wait_for(first_event(trigger(tmp_path)), 240))["rows"] == 1
        assert threads
        assert threading.get_ident() not in threads

    @pytest.mark.parametrize("method", ["__init__", "append"])
    async def test_a_cancelled_trigger_waits_for_what_is_half_written(
        self, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        loop = asyncio.get_running_loop()
        begun, go_on, done = asyncio.Event(), threading.Event(), list[str]()
        original: Callable[..., Any] = getattr(LocalStage, method)
        closing = LocalStage.close

        def slowly(*arguments: Any) -> Any:
            loop.call_soon_threadsafe(begun.set)
            assert go_on.wait(240)
            result = original(*arguments)
            done.append(method)
            return result

        def close(stage: LocalStage) -> None:
            done.append("close")
            closing(stage)

        monkeypatch.setattr(LocalStage, method, slowly)
        monkeypatch.setattr(LocalStage, "close", close)
        platform.replies = [reply(1, token="T2")]
        running = asyncio.ensure_future(first_event(trigger(tmp_path)))
        await asyncio.wait_for(begun.wait(), 240)
        running.cancel()
        await asyncio.sleep(0.05)
        assert not running.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert done[0] == method
        assert done[-1] == "close"
        # So the next attempt finds it free.
        with dataset(tmp_path).staging(OWNER) as staging:
            assert staging.rows == (method == "append")
