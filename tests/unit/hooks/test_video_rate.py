"""What all who use one credential of the video platform share, where its connection has a rate: that and the quota."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import QuotaExceededError, RateLimitedError
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from tests.unit.hooks.video_hook import BASE, REFRESH, SUBSCRIPTIONS, TOKEN_URL, carry_out, http
from tests.unit.loopback import Loopback, answering
from tests.unit.video_platform import error, page

if TYPE_CHECKING:
    from collections.abc import Callable

    from requests_mock import Mocker

    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter

pytestmark = pytest.mark.usefixtures("supervisor")

OPTION = "AIRFLOW__MEDIAOPS__RATE_LIMIT_STORE"
#: A rate so slow that the time a test takes is nothing to it.
SLOW = {"requests_per_second": 0.01, "rate_limit_store": "memory://"}
FAST = {"requests_per_second": 10_000, "rate_limit_store": "memory://"}
SPENT = error(403, "quotaExceeded")


def limiter_of(connect_video: Callable[..., None], host: str = BASE, **fields: Any) -> RateLimiter:
    connect_video(host, **{**SLOW, **fields})
    limiter = VideoPlatformHook().service.client.limiter
    assert limiter
    return limiter


class TestWithoutARate:
    def test_nothing_is_shared_and_no_store_is_looked_for(
        self, connect_video: Callable[..., None], monkeypatch: pytest.MonkeyPatch, pauses: list[float]
    ) -> None:
        monkeypatch.setenv(OPTION, "no address at all")
        with Loopback(answering(http(SPENT, 403), http(page(1)))) as server:
            connect_video(server.base, requests_per_second="")
            assert VideoPlatformHook().service.client.limiter is None
            with pytest.raises(QuotaExceededError):
                carry_out("list_subscriptions", mine=True)
            assert carry_out("list_subscriptions", mine=True).items
        assert pauses == []


class TestWhoShares:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"password": "t1"}, {"password": "t1", "requests_per_second": 3}),
            ({"auth": "api_key", "password": "k1"}, {"auth": "api_key", "password": "k1", "max_wait": 7}),
            # The quota is the project's, whoever the user is, and whatever the client's secret was before.
            (REFRESH, {**REFRESH, "refresh_token": "another", "password": "another"}),
            ({"auth": "none"}, {"auth": "none", "password": "is not sent"}),
        ],
    )
    def test_one_credential_has_one_schedule(
        self, connect_video: Callable[..., None], one: dict[str, Any], other: dict[str, Any]
    ) -> None:
        limiters = [limiter_of(connect_video, **fields) for fields in (one, other)]
        assert limiters[0].backend is limiters[1].backend
        assert limiters[0].name == limiters[1].name

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({"password": "t1"}, {"password": "t2"}),
            ({"auth": "api_key", "password": "k1"}, {"auth": "api_key", "password": "k2"}),
            (REFRESH, {**REFRESH, "login": "another"}),
            ({"auth": "none"}, {"auth": "none", "host": "https://another.example"}),
        ],
    )
    def test_another_has_another(
        self, connect_video: Callable[..., None], one: dict[str, Any], other: dict[str, Any]
    ) -> None:
        names = {limiter_of(connect_video, **fields).name for fields in (one, other)}
        assert len(names) == 2
        assert not any(secret in name for secret in ("t1", "t2", "k1", "k2", "client") for name in names)


class TestTheRate:
    def test_rate_is_kept_between_two_hooks(self, connect_video: Callable[..., None], pauses: list[float]) -> None:
        with Loopback(answering(http(page(1)))) as server:
            connect_video(server.base, **SLOW)
            carry_out("list_subscriptions", mine=True)
            assert pauses == []
            carry_out("list_subscriptions", mine=True)
        assert pauses[0] == pytest.approx(100, rel=0.1)

    def test_a_token_is_fetched_within_the_turn_of_its_request(
        self, connect_video: Callable[..., None], requests_mock: Mocker, pauses: list[float]
    ) -> None:
        requests_mock.post(TOKEN_URL, json={"access_token": "at-1", "expires_in": 3600})
        requests_mock.get(SUBSCRIPTIONS, json=page(1))
        connect_video(**REFRESH, **SLOW)
        with VideoPlatformHook() as hook:
            hook.list_subscriptions(mine=True)
        assert [request.method for request in requests_mock.request_history] == ["POST", "GET"]
        assert pauses == []

    def test_a_limit_reply_holds_the_other_hook_back(
        self, connect_video: Callable[..., None], pauses: list[float]
    ) -> None:
        limited = http(error(403, "rateLimitExceeded"), 403, retry_after="90")
        with Loopback(answering(limited, http(page(1)))) as server:
            connect_video(server.base, **FAST)
            with pytest.raises(RateLimitedError):
                carry_out("list_subscriptions", mine=True)
            assert pauses == []
            carry_out("list_subscriptions", mine=True)
        assert pauses[0] == pytest.approx(90, rel=0.1)


class TestASpentQuota:
    def test_spent_quota_stops_other_hooks_without_a_request(self, connect_video: Callable[..., None]) -> None:
        seen: list[bytes] = []
        with Loopback(answering(http(SPENT, 403), seen=seen)) as server:
            connect_video(server.base, **FAST)
            with pytest.raises(QuotaExceededError, match="answered GET"):
                carry_out("list_subscriptions", mine=True)
            until = r"used up until \d{4}-\d\d-\d\d 0[78]:00 UTC, so "
            with pytest.raises(QuotaExceededError, match=f"{until}GET /v3/subscriptions was not sent") as caught:
                carry_out("iter_subscriptions", channel_id="UC-1")
            with pytest.raises(QuotaExceededError, match=f"{until}POST /v3/activities was not sent"):
                carry_out("post_bulletin", "Hello")
        assert len(seen) == 1
        assert 0 < (caught.value.retry_after or 0) < 26 * 3600

    def test_the_button_asks_all_the_same_and_lets_all_go_on_when_the_service_answers(
        self, connect_video: Callable[..., None], requests_mock: Mocker
    ) -> None:
        connect_video(**FAST)
        requests_mock.get(SUBSCRIPTIONS, status_code=403, json=SPENT)
        for asked in (1, 2):
            worked, said = VideoPlatformHook().test_connection()
            assert (worked, requests_mock.call_count) == (False, asked)
            assert "midnight Pacific time" in said
        with pytest.raises(QuotaExceededError, match="was not sent"):
            carry_out("list_subscriptions", mine=True)

        requests_mock.get(SUBSCRIPTIONS, json=page(1))
        assert VideoPlatformHook().test_connection()[0]
        assert carry_out("list_subscriptions", mine=True).items
