"""The hook of the video platform: what it sends, how it lists and waits, and its session on an event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.sdk import Connection

from airflow_provider_mediaops.exceptions import AuthenticationError, InvalidReplyError
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from airflow_provider_mediaops.http.exchange import Wait
from airflow_provider_mediaops.video.arguments import SubscriptionQuery
from tests.unit.call_flows import on_a_loop
from tests.unit.hooks.video_hook import BASE, REFRESH, carry_out, http
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, answering
from tests.unit.video_platform import KEY, error, page

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.video.models import SubscriptionPage
    from tests.unit.loopback import Peer

pytestmark = pytest.mark.usefixtures("supervisor")


def queries(seen: list[bytes]) -> list[dict[str, list[str]]]:
    return [parse_qs(urlsplit(request.split()[1].decode()).query) for request in seen]


class TestPosting:
    def test_a_bulletin_is_posted(self, connect_video: Callable[..., None]) -> None:
        seen: list[bytes] = []
        with Loopback(answering(http({"id": "a1", "snippet": {"description": "Hello"}}), seen=seen)) as server:
            connect_video(f"{server.base}/youtube", kind_prefix="youtube")
            activity = carry_out("post_bulletin", "Grüße ✓", playlist_id="p1")
        assert (activity.id, activity.text) == ("a1", "Hello")
        head, _, body = seen[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /youtube/v3/activities?part=snippet%2CcontentDetails HTTP/1.1")
        assert f"authorization: bearer {KEY}".encode() in head.lower()
        assert b"content-type: application/json; charset=utf-8" in head.lower()
        sent = json.loads(body)
        assert sent["snippet"] == {"description": "Grüße ✓"}
        resource = {"kind": "youtube#playlist", "playlistId": "p1"}
        assert sent["contentDetails"]["bulletin"]["resourceId"] == resource


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

    @pytest.mark.parametrize("method", ["list_subscriptions", "iter_subscriptions"])
    def test_a_query_that_breaks_the_rules_is_not_sent(self, connect_video: Callable[..., None], method: str) -> None:
        with Loopback(answering(http({}))) as server:
            connect_video(server.base)
            with pytest.raises(ValueError, match="exactly one"):
                carry_out(method, mine=True, channel_id="UC1")
            assert server.accepted == 0

    @pytest.mark.parametrize("method", ["iter_subscriptions", "iter_subscription_pages"])
    def test_a_listing_that_is_cut_short_is_told_of_and_can_be_an_error(
        self, connect_video: Callable[..., None], monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        lines = log_lines(monkeypatch, VideoPlatformHook)
        replies = [http(page(1, next_token="T1")), http(page(2, next_token="T1"))]
        with Loopback(answering(*replies, *replies)) as server:
            connect_video(server.base)
            assert len(carry_out(method, mine=True)) == 2
            (warning,) = lines
            assert warning.startswith("WARNING: The service cut the listing short: it ends after 2 pages")
            with pytest.raises(InvalidReplyError, match="cut the listing short after 2 pages"):
                carry_out(method, mine=True, require_complete="yes")


class TestWaiting:
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


class TestTokens:
    def test_every_secret_is_masked_before_it_is_sent(
        self, connect_video: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        happened: list[str] = []
        monkeypatch.setattr("airflow_provider_mediaops.hooks.base.mask_secret", happened.append)

        def serve(peer: Peer) -> None:
            while request := peer.request():
                path = request.split()[1].decode().partition("?")[0]
                happened.append(path)
                peer.send(http({"access_token": "at-s3cr3t"} if path == "/token" else page(1)))

        with Loopback(serve) as server:
            connect_video(server.base, **{**REFRESH, "token_url": f"{server.base}/token"})
            carry_out("list_subscriptions", channel_id="UC1")
        assert happened == ["rt-s3cr3t", "/token", "at-s3cr3t", "/v3/subscriptions"]

    def test_a_refresh_token_that_was_replaced_is_worth_one_warning(
        self, connect_video: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, VideoPlatformHook)
        seen: list[bytes] = []
        replies = [
            http({"access_token": "at-s3cr3t", "refresh_token": "rt-n3w-s3cr3t", "expires_in": 3599}),
            http(error(401, "authError"), 401),
            http({"access_token": "at-2-s3cr3t", "refresh_token": "rt-n3w3r-s3cr3t"}),
            http(page(1)),
        ]
        with Loopback(answering(*replies, seen=seen)) as server:
            connect_video(server.base, **{**REFRESH, "token_url": f"{server.base}/token"})
            carry_out("list_subscriptions", channel_id="UC1")
        (warning,) = [each for each in lines if "refresh token" in each]
        assert "connection 'mediaops_video_default'" in warning
        assert "put the new refresh token into the connection" in warning
        assert "s3cr3t" not in "".join(lines)
        # This task goes on with the new one.
        assert b"refresh_token=rt-n3w-s3cr3t" in seen[2]

    def test_a_new_token_that_is_refused_is_not_advised_to_be_refreshed(
        self, connect_video: Callable[..., None]
    ) -> None:
        replies = [http({"access_token": "at-s3cr3t"}), http(error(401, "authError"), 401)] * 2
        with Loopback(answering(*replies)) as server:
            connect_video(server.base, **{**REFRESH, "token_url": f"{server.base}/token"})
            with pytest.raises(AuthenticationError, match=r"just issued: .* are of one platform\.$"):
                carry_out("list_subscriptions", channel_id="UC1")
