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
from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from tests.unit.book_database import CALENDAR, CRIME, NO_SUCH_BOOK, book
from tests.unit.hooks.conftest import BOOKS
from tests.unit.hooks.video_hook import REFRESH, SUBSCRIPTIONS, carry_out, http
from tests.unit.loopback import Loopback, answering, closed_port
from tests.unit.video_platform import error, page

if TYPE_CHECKING:
    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")

OPTION = "AIRFLOW__MEDIAOPS__RATE_LIMIT_STORE"
#: A rate so slow that the time a test takes is nothing to it.
SLOW = {"requests_per_second": 0.01, "rate_limit_store": "memory://"}
FAST = {"requests_per_second": 10_000, "rate_limit_store": "memory://"}
VIDEO_SPENT = error(403, "quotaExceeded")
BOOKS_SPENT: dict[str, Any] = {"status_code": 403, "json": {"message": "Daily quota exceeded"}}
LEFT: dict[str, Any] = {"json": {"plan_limit": {"total": 5000, "spent": 10, "left": 4990}}}


@pytest.mark.parametrize(
    ("own", "option", "home", "where"),
    [
        (None, DEFAULT_RATE_STORE, "/opt/airflow", "sqlite:////opt/airflow/mediaops_rate_limits.db"),
        (None, DEFAULT_RATE_STORE, "$BASE/airflow", "sqlite:////srv/airflow/mediaops_rate_limits.db"),
        (None, DEFAULT_RATE_STORE, "~/airflow", f"sqlite:///{Path.home()}/airflow/mediaops_rate_limits.db"),
        (None, DEFAULT_RATE_STORE, "", f"sqlite:///{Path.home()}/airflow/mediaops_rate_limits.db"),
        (None, " rediss://redis.example/1 ", "/opt/airflow", "rediss://redis.example:6379/1"),
        ("memory://", "redis://redis.example", "/opt/airflow", "memory://"),
    ],
)
def test_store_is_that_of_the_connection_or_of_airflows_configuration_and_home(
    connect_books: Any, monkeypatch: pytest.MonkeyPatch, *, own: str | None, option: str, home: str, where: str
) -> None:
    connect_books(rate_limit_store=own)
    monkeypatch.setenv("BASE", "/srv")
    monkeypatch.setenv(OPTION, option)
    monkeypatch.setenv("AIRFLOW_HOME", home)
    if not home:
        monkeypatch.delenv("AIRFLOW_HOME")
    with BookDatabaseHook() as hook:
        limiter = hook.service.client.limiter
    assert limiter
    assert limiter.backend.where == where


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

    @pytest.mark.parametrize(
        ("key_reply", "book_reply"),
        [({"status_code": 404}, {"json": book(CRIME)}), (LEFT, {"status_code": 404, "json": NO_SUCH_BOOK})],
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
    ("service", "one", "other", "schedules"),
    [
        ("video", {"password": "t1"}, {"password": "t1", "requests_per_second": 3}, 1),
        ("video", {"auth": "api_key", "password": "k1"}, {"auth": "api_key", "password": "k1", "max_wait": 7}, 1),
        # The quota is the project's, whoever the user is, and whatever the client's secret was before.
        ("video", REFRESH, {**REFRESH, "refresh_token": "another", "password": "another"}, 1),
        ("video", {"auth": "none"}, {"auth": "none", "password": "is not sent"}, 1),
        ("video", {"password": "t1"}, {"password": "t2"}, 2),
        ("video", {"auth": "api_key", "password": "k1"}, {"auth": "api_key", "password": "k2"}, 2),
        ("video", REFRESH, {**REFRESH, "login": "another"}, 2),
        ("video", {"auth": "none"}, {"auth": "none", "host": "https://another.example"}, 2),
        ("books", {"password": "k1"}, {"password": "k1", "plan": "pro", "requests_per_second": 3}, 1),
        ("books", {"password": "k1"}, {"password": "k2"}, 2),
    ],
)
def test_one_credential_has_one_schedule_whose_name_does_not_tell_it(
    request: pytest.FixtureRequest, service: str, one: dict[str, Any], other: dict[str, Any], schedules: int
) -> None:
    limiters = []
    for fields in (one, other):
        request.getfixturevalue(f"connect_{service}")(**{**SLOW, **fields})
        hook: Any = VideoPlatformHook() if service == "video" else BookDatabaseHook()
        limiters.append(hook.service.client.limiter)
    assert limiters[0].backend is limiters[1].backend
    names = {limiter.name for limiter in limiters}
    assert len(names) == schedules
    assert not any(secret in name for secret in ("t1", "t2", "k1", "k2", "client") for name in names)
    assert limiters[1].per_second == other.get("requests_per_second", 0.01)


def test_rate_is_kept_between_two_hooks(connect_video: Callable[..., None], pauses: list[float]) -> None:
    with Loopback(answering(http(page(1)))) as server:
        connect_video(server.base, **SLOW)
        carry_out("list_subscriptions", mine=True)
        assert pauses == []
        carry_out("list_subscriptions", mine=True)
    assert pauses[0] == pytest.approx(100, rel=0.1)


class TestSpentQuotaOfVideos:
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
