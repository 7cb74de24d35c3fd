"""The rate of a key and its quota: where a hook keeps them, who shares them, and what it says of a store."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.connection_fields import DEFAULT_RATE_STORE
from airflow_provider_mediaops.exceptions import InvalidConnectionError, QuotaExceededError, RateStoreError
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.hooks.connection import ConnectionFields, rate_limiter
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from tests.unit.book_database import CALENDAR, CRIME, NO_SUCH_BOOK, book
from tests.unit.hooks.conftest import BOOKS
from tests.unit.hooks.video_hook import REFRESH, SUBSCRIPTIONS, carry_out, http
from tests.unit.loopback import Loopback, answering, closed_port
from tests.unit.video_platform import error, page

if TYPE_CHECKING:
    import requests_mock

    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter

pytestmark = pytest.mark.usefixtures("supervisor")

OPTION = "AIRFLOW__MEDIAOPS__RATE_LIMIT_STORE"
#: A rate so slow that the time a test takes is nothing to it.
SLOW = {"requests_per_second": 0.01, "rate_limit_store": "memory://"}
FAST = {"requests_per_second": 10_000, "rate_limit_store": "memory://"}
VIDEO_SPENT = error(403, "quotaExceeded")
BOOKS_SPENT: dict[str, Any] = {"status_code": 403, "json": {"message": "Daily quota exceeded"}}
LEFT: dict[str, Any] = {"json": {"plan_limit": {"total": 5000, "spent": 10, "left": 4990}}}


class TestWhereItIs:
    @pytest.mark.parametrize(
        ("home", "file"),
        [
            ("/opt/airflow", "/opt/airflow/mediaops_rate_limits.db"),
            ("$BASE/airflow", "/srv/airflow/mediaops_rate_limits.db"),
            ("~/airflow", f"{Path.home()}/airflow/mediaops_rate_limits.db"),
            (None, f"{Path.home()}/airflow/mediaops_rate_limits.db"),
        ],
    )
    def test_the_home_is_where_airflow_takes_it_to_be(
        self, monkeypatch: pytest.MonkeyPatch, home: str | None, file: str
    ) -> None:
        monkeypatch.setenv("BASE", "/srv")
        monkeypatch.setenv(OPTION, DEFAULT_RATE_STORE)
        if home is None:
            monkeypatch.delenv("AIRFLOW_HOME")
        else:
            monkeypatch.setenv("AIRFLOW_HOME", home)
        limiter = rate_limiter(ConnectionFields("books"), "thing", "key", 1.0)
        assert limiter
        assert limiter.backend.where == f"sqlite:///{file}"

    @pytest.mark.parametrize(
        ("own", "option", "where"),
        [
            (None, " rediss://redis.example/1 ", "rediss://redis.example:6379/1"),
            ("memory://", "redis://redis.example", "memory://"),
        ],
    )
    def test_store_is_that_of_the_connection_or_of_the_configuration(
        self, connect_books: Any, monkeypatch: pytest.MonkeyPatch, own: str | None, option: str, where: str
    ) -> None:
        connect_books(rate_limit_store=own)
        monkeypatch.setenv(OPTION, option)
        with BookDatabaseHook() as hook:
            limiter = hook.service.client.limiter
        assert limiter
        assert limiter.backend.where == where

    def test_hooks_with_one_key_share_one_schedule(self, connect_books: Any) -> None:
        limiters = []
        for fields in ({}, {"requests_per_second": 3}, {"password": "another"}):
            connect_books(**fields)
            with BookDatabaseHook() as hook:
                limiters.append(hook.service.client.limiter)
        first, second, third = (limiter for limiter in limiters if limiter)
        assert (first.backend, first.name) == (second.backend, second.name)
        assert (second.per_second, third.per_second) == (3.0, 10_000.0)
        assert third.name != first.name


class TestWhatIsSaidOfIt:
    @pytest.mark.parametrize("address", ["sqlite:///rates.db", "mysql://me:s3cr3t@host", "redis://:s3cr3t@host:x"])
    @pytest.mark.parametrize(
        ("option", "words"),
        [
            (False, "Connection 'mediaops_books_default', field 'rate_limit_store': "),
            (True, r"Airflow's section \[mediaops\], option rate_limit_store: "),
        ],
    )
    def test_address_of_no_store_is_named_by_where_it_is_written(
        self, connect_books: Any, monkeypatch: pytest.MonkeyPatch, address: str, words: str, *, option: bool
    ) -> None:
        connect_books(rate_limit_store="" if option else address)
        monkeypatch.setenv(OPTION, address)
        with BookDatabaseHook() as hook, pytest.raises(InvalidConnectionError, match=words) as caught:
            hook.book(CRIME)
        assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))

    def test_store_that_cannot_be_reached_sends_nothing_and_its_password_is_masked(
        self, connect_books: Any, monkeypatch: pytest.MonkeyPatch, requests_mock: requests_mock.Mocker
    ) -> None:
        port, masked = closed_port(), list[str]()
        monkeypatch.setattr("airflow_provider_mediaops.hooks.base.mask_secret", masked.append)
        connect_books(rate_limit_store="")
        monkeypatch.setenv(OPTION, f"redis://:s3%2Fcr3t@127.0.0.1:{port}")
        worked, said = BookDatabaseHook().test_connection()
        assert not worked
        assert f"The rate store redis://127.0.0.1:{port} cannot be used" in said
        with BookDatabaseHook() as hook, pytest.raises(RateStoreError) as caught:
            hook.book(CRIME)
        assert "cr3t" not in said + "".join(traceback.format_exception(caught.value))
        assert {"s3%2Fcr3t", "s3/cr3t"} == set(masked)
        assert not requests_mock.called


class TestSpentQuotaOfBooks:
    @pytest.fixture(autouse=True)
    def spent(self, connect_books: Any, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(f"{BOOKS}/book/{CRIME}", **BOOKS_SPENT)
        with BookDatabaseHook() as hook, pytest.raises(QuotaExceededError):
            hook.book(CRIME)
        requests_mock.reset_mock()

    def test_every_hook_with_the_key_is_stopped(self, requests_mock: requests_mock.Mocker) -> None:
        with BookDatabaseHook() as hook, pytest.raises(QuotaExceededError, match=r"used up until .* 00:00 UTC, so GET"):
            hook.book(CALENDAR)
        assert not requests_mock.called

    @pytest.mark.parametrize(
        ("key_reply", "book_reply"),
        [
            ({"status_code": 404}, {"json": book(CRIME)}),
            (LEFT, {"json": book(CRIME)}),
            (LEFT, {"status_code": 404, "json": NO_SUCH_BOOK}),
        ],
    )
    def test_a_test_of_the_connection_that_works_lets_all_go_on(
        self, requests_mock: requests_mock.Mocker, key_reply: dict[str, Any], book_reply: dict[str, Any]
    ) -> None:
        requests_mock.get(f"{BOOKS}/key", **key_reply)
        requests_mock.get(f"{BOOKS}/book/{CRIME}", **book_reply)
        requests_mock.get(f"{BOOKS}/book/{CALENDAR}", json=book(CALENDAR))
        assert BookDatabaseHook().test_connection()[0]
        with BookDatabaseHook() as hook:
            assert hook.lookup(CALENDAR).status == "found"

    @pytest.mark.parametrize(
        "key_reply",
        [{"status_code": 404}, {"json": {"plan_limit": {"total": 5000, "spent": 5000, "left": 0}}}],
    )
    def test_connection_test_that_finds_the_quota_spent_does_not_restore_it(
        self, requests_mock: requests_mock.Mocker, key_reply: dict[str, Any]
    ) -> None:
        requests_mock.get(f"{BOOKS}/key", **key_reply)
        requests_mock.get(f"{BOOKS}/book/{CRIME}", **BOOKS_SPENT)
        BookDatabaseHook().test_connection()
        with BookDatabaseHook() as hook, pytest.raises(QuotaExceededError, match="used up until"):
            hook.lookup(CALENDAR)


def limiter_of(connect_video: Callable[..., None], **fields: Any) -> RateLimiter:
    connect_video(**{**SLOW, **fields})
    limiter = VideoPlatformHook().service.client.limiter
    assert limiter
    return limiter


def test_nothing_is_shared_and_no_store_is_looked_for(
    connect_video: Callable[..., None], monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    monkeypatch.setenv(OPTION, "no address at all")
    with Loopback(answering(http(VIDEO_SPENT, 403), http(page(1)))) as server:
        connect_video(server.base, requests_per_second="")
        assert VideoPlatformHook().service.client.limiter is None
        with pytest.raises(QuotaExceededError):
            carry_out("list_subscriptions", mine=True)
        assert carry_out("list_subscriptions", mine=True).items
    assert pauses == []


@pytest.mark.parametrize(
    ("one", "other", "schedules"),
    [
        ({"password": "t1"}, {"password": "t1", "requests_per_second": 3}, 1),
        ({"auth": "api_key", "password": "k1"}, {"auth": "api_key", "password": "k1", "max_wait": 7}, 1),
        # The quota is the project's, whoever the user is, and whatever the client's secret was before.
        (REFRESH, {**REFRESH, "refresh_token": "another", "password": "another"}, 1),
        ({"auth": "none"}, {"auth": "none", "password": "is not sent"}, 1),
        ({"password": "t1"}, {"password": "t2"}, 2),
        ({"auth": "api_key", "password": "k1"}, {"auth": "api_key", "password": "k2"}, 2),
        (REFRESH, {**REFRESH, "login": "another"}, 2),
        ({"auth": "none"}, {"auth": "none", "host": "https://another.example"}, 2),
    ],
)
def test_one_credential_has_one_schedule_whose_name_does_not_tell_it(
    connect_video: Callable[..., None], one: dict[str, Any], other: dict[str, Any], schedules: int
) -> None:
    limiters = [limiter_of(connect_video, **fields) for fields in (one, other)]
    assert limiters[0].backend is limiters[1].backend
    names = {limiter.name for limiter in limiters}
    assert len(names) == schedules
    assert not any(secret in name for secret in ("t1", "t2", "k1", "k2", "client") for name in names)


def test_rate_is_kept_between_two_hooks(connect_video: Callable[..., None], pauses: list[float]) -> None:
    with Loopback(answering(http(page(1)))) as server:
        connect_video(server.base, **SLOW)
        carry_out("list_subscriptions", mine=True)
        assert pauses == []
        carry_out("list_subscriptions", mine=True)
    assert pauses[0] == pytest.approx(100, rel=0.1)


class TestSpentQuotaOfVideos:
    def test_spent_quota_stops_other_hooks_without_a_request(self, connect_video: Callable[..., None]) -> None:
        seen: list[bytes] = []
        with Loopback(answering(http(VIDEO_SPENT, 403), seen=seen)) as server:
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
        self, connect_video: Callable[..., None], requests_mock: requests_mock.Mocker
    ) -> None:
        connect_video(**FAST)
        requests_mock.get(SUBSCRIPTIONS, status_code=403, json=VIDEO_SPENT)
        for asked in (1, 2):
            worked, said = VideoPlatformHook().test_connection()
            assert (worked, requests_mock.call_count) == (False, asked)
            assert "midnight Pacific time" in said
        with pytest.raises(QuotaExceededError, match="was not sent"):
            carry_out("list_subscriptions", mine=True)

        requests_mock.get(SUBSCRIPTIONS, json=page(1))
        assert VideoPlatformHook().test_connection()[0]
        assert carry_out("list_subscriptions", mine=True).items
