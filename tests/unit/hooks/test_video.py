from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.sdk import Connection

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidReplyError,
    NotFoundError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from airflow_provider_mediaops.http.exchange import Wait
from airflow_provider_mediaops.video.arguments import SubscriptionQuery
from airflow_provider_mediaops.video.at_most_once import RECORD_KEY
from airflow_provider_mediaops.video.paging import Listing, list_pages
from tests.unit.call_flows import on_a_loop
from tests.unit.hooks.video_hook import BASE, carry_out, http
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering
from tests.unit.task_state import KeptState
from tests.unit.video.delivering import begun
from tests.unit.video_platform import KEY, error, page, subscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from requests_mock import Mocker

    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.video.models import SubscriptionPage
    from tests.unit.loopback import Peer

pytestmark = pytest.mark.usefixtures("supervisor")


def hang_up(peer: Peer) -> None:
    peer.request()


def queries(seen: list[bytes]) -> list[dict[str, list[str]]]:
    return [parse_qs(urlsplit(request.split()[1].decode()).query) for request in seen]


class TestPosting:
    def test_a_bulletin_is_posted(self, connect_video: Callable[..., None]) -> None:
        seen: list[bytes] = []
        with Loopback(answering(http({"id": "a1", "snippet": {"description": "Hello"}}), seen=seen)) as server:
            connect_video(f"{server.base}/youtube", kind_prefix="youtube")
            activity = carry_out("post_bulletin", "Hello", playlist_id="p1")
        assert (activity.id, activity.text) == ("a1", "Hello")
        head, _, body = seen[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /youtube/v3/activities?part=snippet%2CcontentDetails HTTP/1.1")
        assert f"authorization: bearer {KEY}".encode() in head.lower()
        resource = {"kind": "youtube#playlist", "playlistId": "p1"}
        assert json.loads(body)["contentDetails"]["bulletin"]["resourceId"] == resource

    def test_a_bulletin_that_breaks_the_rules_is_not_sent(self, connect_video: Callable[..., None]) -> None:
        with Loopback(answering(http({}))) as server:
            connect_video(server.base)
            with pytest.raises(ValueError, match="bulletinTextRequired"):
                carry_out("post_bulletin")
            assert server.accepted == 0

    def test_a_bulletin_whose_reply_is_lost_is_not_sent_again(self, connect_video: Callable[..., None]) -> None:
        with Loopback(hang_up) as server:
            connect_video(server.base, max_attempts=5)
            with pytest.raises(UncertainDeliveryError, match="not known whether POST /v3/activities took effect"):
                carry_out("post_bulletin", "Hello")
            assert server.accepted == 1

    def test_bulletin_refused_for_want_of_a_user_ends_in_advice_and_leaves_no_intent(
        self, connect_video: Callable[..., None]
    ) -> None:
        store = KeptState()
        with Loopback(answering(http(error(401, "required"), 401))) as server:
            connect_video(server.base, auth="api_key")
            with pytest.raises(AuthenticationError, match="need an authorised user, which no API key is"):
                carry_out("post_bulletin", "Hello", delivery=begun(store))
        assert begun(store).already_posted is None

    @pytest.mark.parametrize("reply", [{}, {"error": {"code": 7}}, {"kind": "svc#subscription", "id": "s1"}])
    def test_a_reply_that_is_no_activity_is_uncertain(
        self, connect_video: Callable[..., None], reply: dict[str, object]
    ) -> None:
        with Loopback(answering(http(reply))) as server:
            connect_video(server.base, max_attempts=5)
            with pytest.raises(UncertainDeliveryError, match="The reply is no activity"):
                carry_out("post_bulletin", "Hello")
            assert server.accepted == 1

    def test_a_refusal_is_typed(self, connect_video: Callable[..., None]) -> None:
        with Loopback(answering(http(error(404, "videoNotFound"), 404))) as server:
            connect_video(server.base)
            with pytest.raises(NotFoundError, match=r"Check video_id\.") as caught:
                carry_out("post_bulletin", video_id="v1")
        assert (caught.value.status, caught.value.reason) == (404, "videoNotFound")

    def test_a_record_can_be_kept_around_it(self, connect_video: Callable[..., None]) -> None:
        store, states = KeptState(), list[str]()

        def answer(peer: Peer) -> None:
            states.append(store.values[RECORD_KEY]["state"])
            peer.request()
            peer.send(http({"id": "a1"}))

        with Loopback(answer) as server:
            connect_video(server.base)
            delivery = begun(store)
            carry_out("post_bulletin", "Hello", delivery=delivery)
        assert states == ["intended"]
        assert store.values[RECORD_KEY]["activity"] == {"id": "a1"}


class TestListing:
    def test_list_of_one_page(self, connect_video: Callable[..., None]) -> None:
        seen: list[bytes] = []
        with Loopback(answering(http(page(1, 2, next_token="T1")), seen=seen)) as server:
            connect_video(server.base)
            listed = carry_out(
                "list_subscriptions", channel_id="UC1", part=["id", "snippet"], max_results=2, page_token="T0"
            )
        assert [each.title for each in listed.subscriptions] == ["Channel 1", "Channel 2"]
        assert listed.next_page_token == "T1"
        assert queries(seen) == [
            {"part": ["id,snippet"], "channelId": ["UC1"], "maxResults": ["2"], "pageToken": ["T0"]}
        ]

    def test_all_pages_over_one_connection(self, connect_video: Callable[..., None]) -> None:
        seen: list[bytes] = []
        pages = [page(number, number + 1, next_token=f"T{number}") for number in range(1, 6)]
        with Loopback(answering(*map(http, pages), http(page(7)), seen=seen)) as server:
            connect_video(server.base)
            got = carry_out("iter_subscription_pages", mine=True, order="alphabetical")
            assert server.accepted == 1
        assert [len(each.items) for each in got] == [2, 2, 2, 2, 2, 1]
        assert [query.get("pageToken") for query in queries(seen)] == [None, ["T1"], ["T2"], ["T3"], ["T4"], ["T5"]]
        # The page size never changes during a listing, and is the largest.
        assert {query["maxResults"][0] for query in queries(seen)} == {"50"}

    def test_each_subscription_once(self, connect_video: Callable[..., None]) -> None:
        with Loopback(answering(http(page(1, 2, next_token="T1")), http(page(2, 3)))) as server:
            connect_video(server.base)
            got = carry_out("iter_subscriptions", ids=["sub-1", "sub-2", "sub-3"])
        assert [each.id for each in got] == ["sub-1", "sub-2", "sub-3"]
        assert got[0].to_dict() == subscription(1)

    @pytest.mark.parametrize("method", ["list_subscriptions", "iter_subscriptions", "iter_deduplicated_pages"])
    def test_a_query_that_breaks_the_rules_is_not_sent(self, connect_video: Callable[..., None], method: str) -> None:
        with Loopback(answering(http({}))) as server:
            connect_video(server.base)
            with pytest.raises(ValueError, match="exactly one"):
                carry_out(method, mine=True, channel_id="UC1")
            assert server.accepted == 0

    def test_a_service_that_stumbles_is_told_of(
        self, connect_video: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, VideoPlatformHook)
        with Loopback(answering(http(page(1, next_token="T1")), http(page(2, next_token="T1")))) as server:
            connect_video(server.base)
            assert len(carry_out("iter_subscriptions", mine=True)) == 2
        (warning,) = lines
        assert warning.startswith("WARNING: The service cut the listing short: it ends after 2 pages, because ")

    @pytest.mark.parametrize("method", ["iter_subscriptions", "iter_subscription_pages", "iter_deduplicated_pages"])
    def test_a_listing_that_is_cut_short_can_be_an_error(self, connect_video: Callable[..., None], method: str) -> None:
        replies = [http(page(1, next_token="T1")), http(page(2, next_token="T1"))]
        with Loopback(answering(*replies, *replies)) as server:
            connect_video(server.base)
            assert len(carry_out(method, mine=True)) == 2
            with pytest.raises(InvalidReplyError, match="cut the listing short after 2 pages"):
                carry_out(method, mine=True, require_complete="yes")


class TestWaiting:
    def test_a_temporary_failure_is_waited_out_and_told_of(
        self, connect_video: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slept: list[float] = []
        monkeypatch.setattr("airflow_provider_mediaops.hooks.base.time.sleep", slept.append)
        lines = log_lines(monkeypatch, VideoPlatformHook)
        replies = [http({}, 503, retry_after="1"), http({}, 503, retry_after="7"), http(page(1))]
        with Loopback(answering(*replies)) as server:
            connect_video(server.base, max_attempts=5)
            assert len(carry_out("list_subscriptions", mine=True).items) == 1
        assert slept == [1.0, 7.0]
        # A pause that is hardly noticed is not worth a line.
        assert len(lines) == 1
        assert lines[0].startswith("INFO: Waiting 7.0 s: ServiceUnavailableError, try 3: The video platform")

    @pytest.mark.parametrize("is_on_loop", [False, True])
    def test_waits_for_the_same_reason_are_told_of_now_and_then(
        self, connect_video: Callable[..., None], monkeypatch: pytest.MonkeyPatch, *, is_on_loop: bool
    ) -> None:
        now = [1_000.0]

        def sleep(seconds: float) -> None:
            now[0] += seconds

        async def asleep(seconds: float) -> None:
            sleep(seconds)

        monkeypatch.setattr("airflow_provider_mediaops.hooks.base.time.monotonic", lambda: now[0])
        monkeypatch.setattr("airflow_provider_mediaops.hooks.base.time.sleep", sleep)
        monkeypatch.setattr("airflow_provider_mediaops.hooks.base.asyncio.sleep", asleep)
        lines = log_lines(monkeypatch, VideoPlatformHook)

        def waits() -> CallFlow[None]:
            for _ in range(20):
                yield Wait(3.0, "the key's rate")
            yield Wait(3.0, "another reason")

        connect_video("http://127.0.0.1:9")
        hook = VideoPlatformHook()
        if is_on_loop:
            on_a_loop(hook.arun(waits()))
        else:
            hook.run(waits())
        assert lines == ["INFO: Waiting 3.0 s: the key's rate"] * 2 + ["INFO: Waiting 3.0 s: another reason"]


class TestOnTheEventLoop:
    async def test_calls_that_share_a_hook_share_its_connection_and_session(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fetched: list[str] = []

        def fetch(conn_id: str) -> Connection:
            fetched.append(conn_id)
            return Connection(conn_id=conn_id, conn_type="mediaops_video", host=server.base, password=KEY)

        monkeypatch.setattr(VideoPlatformHook, "get_connection", staticmethod(fetch))
        with Loopback(answering(http(page(1)))) as server, VideoPlatformHook() as hook:

            async def list_once() -> SubscriptionPage:
                ask = (await hook.aservice()).ask
                return await hook.arun(ask(SubscriptionQuery(mine=True).page()))

            first = await asyncio.gather(*(list_once() for _ in range(5)))
            await asyncio.gather(*(list_once() for _ in range(5)))
            assert server.accepted <= 5
        assert len(first) == 5
        assert fetched == ["mediaops_video_default"]

    async def test_connection_is_read_to_its_end_by_a_cancelled_call(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Airflow 3.1 takes an answer that nobody has read for the answer to the next question."""
        asked, may_answer = threading.Event(), threading.Event()

        def fetch(conn_id: str) -> Connection:
            asked.set()
            assert may_answer.wait(240)
            return Connection(conn_id=conn_id, conn_type="mediaops_video", host=BASE, password=KEY)

        monkeypatch.setattr(VideoPlatformHook, "get_connection", staticmethod(fetch))
        fetching = asyncio.ensure_future(VideoPlatformHook().aservice())
        assert await asyncio.to_thread(asked.wait, 240)
        for _ in range(3):
            fetching.cancel()
            await asyncio.sleep(0)
        assert not fetching.done()
        may_answer.set()
        with pytest.raises(asyncio.CancelledError):
            await fetching

    async def test_stream_left_half_way_asks_for_no_other_page(self, connect_video: Callable[..., None]) -> None:
        seen: list[bytes] = []
        with Loopback(answering(http(page(1, next_token="T1")), http(page(2)), seen=seen)) as server:
            connect_video(server.base)
            with VideoPlatformHook() as hook:
                client = (await hook.aservice()).client
                pages = hook.astream(list_pages(client.ask, Listing(SubscriptionQuery(mine=True))))
                assert [item["id"] for item in (await anext(pages)).fresh] == ["sub-1"]
                await pages.aclose()
                assert [item async for item in pages] == []
        assert len(seen) == 1


def test_a_write_is_sent_as_the_service_reads_it(connect_video: Callable[..., None], requests_mock: Mocker) -> None:
    connect_video()
    requests_mock.post(f"{BASE}/v3/activities", json={"id": "a1"})
    with VideoPlatformHook() as hook:
        hook.post_bulletin("Grüße ✓")
    assert requests_mock.request_history[-1].json() == {"snippet": {"description": "Grüße ✓"}}
    assert requests_mock.request_history[-1].headers["Content-Type"] == "application/json; charset=utf-8"
