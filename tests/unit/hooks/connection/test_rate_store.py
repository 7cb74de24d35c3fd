"""Where a hook keeps the rate of its key, and what it says of a store that cannot be used."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.connection_fields import DEFAULT_RATE_STORE
from airflow_provider_mediaops.exceptions import InvalidConnectionError, QuotaExceededError, RateStoreError
from airflow_provider_mediaops.get_provider_info import get_provider_info
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.hooks.connection.field_values import ConnectionFields
from airflow_provider_mediaops.hooks.connection.settings import rate_limiter
from airflow_provider_mediaops.http.rate_limit.backend import backend_at
from tests.conftest import AIRFLOW_HOME
from tests.unit.book_database import CALENDAR, CRIME, NO_SUCH_BOOK, book, connection
from tests.unit.loopback import closed_port

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")

BASE = "https://books.example"
OPTION = "AIRFLOW__MEDIAOPS__RATE_LIMIT_STORE"
LEFT: dict[str, Any] = {"json": {"plan_limit": {"total": 5000, "spent": 10, "left": 4990}}}
SPENT: dict[str, Any] = {"status_code": 403, "json": {"message": "Daily quota exceeded"}}


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the default connection."""

    def set_connection(**fields: Any) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT", connection(BASE, **fields))

    set_connection()
    return set_connection


def store_of_the_hook() -> str:
    with BookDatabaseHook() as hook:
        limiter = hook.service.client.limiter
    assert limiter
    return limiter.backend.where


class TestWhereItIs:
    def test_rate_store_is_a_file_in_the_home_of_airflow(self, connect: Any) -> None:
        connect(rate_limit_store="")
        assert store_of_the_hook() == f"sqlite:///{AIRFLOW_HOME}/mediaops_rate_limits.db"

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
        assert limiter.backend.where == f"sqlite:///{file}"

    def test_rate_store_can_be_configured(self, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        connect(rate_limit_store=None)
        monkeypatch.setenv(OPTION, " rediss://redis.example/1 ")
        assert store_of_the_hook() == "rediss://redis.example:6379/1"

    def test_a_connection_can_have_its_own(self, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        connect(rate_limit_store="memory://")
        monkeypatch.setenv(OPTION, "redis://redis.example")
        assert store_of_the_hook() == "memory://"

    def test_hooks_with_one_key_share_one_schedule(self, connect: Any) -> None:
        limiters = []
        for fields in ({}, {"requests_per_second": 3}, {"password": "another"}):
            connect(**fields)
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
        self, connect: Any, monkeypatch: pytest.MonkeyPatch, address: str, words: str, *, option: bool
    ) -> None:
        connect(rate_limit_store="" if option else address)
        monkeypatch.setenv(OPTION, address)
        with BookDatabaseHook() as hook, pytest.raises(InvalidConnectionError, match=words) as caught:
            hook.book(CRIME)
        assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))

    @pytest.mark.parametrize(
        "address", ["redis://:s3cr3t@host", "rediss://me:s3cr3t@host", "redis://h?password=s3cr3t"]
    )
    def test_a_password_belongs_into_the_configuration(self, connect: Any, address: str) -> None:
        connect(rate_limit_store=address)
        with BookDatabaseHook() as hook, pytest.raises(InvalidConnectionError, match="it holds a password") as caught:
            hook.book(CRIME)
        assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))

    def test_store_that_cannot_be_reached_sends_nothing(
        self, connect: Any, monkeypatch: pytest.MonkeyPatch, requests_mock: requests_mock.Mocker
    ) -> None:
        port = closed_port()
        connect(rate_limit_store="")
        monkeypatch.setenv(OPTION, f"redis://:s3cr3t@127.0.0.1:{port}")
        worked, said = BookDatabaseHook().test_connection()
        assert not worked
        assert f"The rate store redis://127.0.0.1:{port} cannot be used" in said
        with BookDatabaseHook() as hook, pytest.raises(RateStoreError) as caught:
            hook.book(CRIME)
        assert "s3cr3t" not in said + "".join(traceback.format_exception(caught.value))
        assert not requests_mock.called

    def test_its_password_is_masked(self, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        masked: list[str] = []
        monkeypatch.setattr("airflow_provider_mediaops.hooks.base.mask_secret", masked.append)
        connect(rate_limit_store="")
        monkeypatch.setenv(OPTION, f"redis://:s3%2Fcr3t@127.0.0.1:{closed_port()}")
        with BookDatabaseHook() as hook, pytest.raises(RateStoreError):
            hook.book(CRIME)
        assert sorted(masked) == ["s3%2Fcr3t", "s3/cr3t"]


class TestASpentQuota:
    @pytest.fixture(autouse=True)
    def spent(self, connect: Any, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(f"{BASE}/book/{CRIME}", **SPENT)
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
        requests_mock.get(f"{BASE}/key", **key_reply)
        requests_mock.get(f"{BASE}/book/{CRIME}", **book_reply)
        requests_mock.get(f"{BASE}/book/{CALENDAR}", json=book(CALENDAR))
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
        requests_mock.get(f"{BASE}/key", **key_reply)
        requests_mock.get(f"{BASE}/book/{CRIME}", **SPENT)
        BookDatabaseHook().test_connection()
        with BookDatabaseHook() as hook, pytest.raises(QuotaExceededError, match="used up until"):
            hook.lookup(CALENDAR)


def test_the_option_is_declared_with_what_the_hook_falls_back_to() -> None:
    option = get_provider_info()["config"]["mediaops"]["options"]["rate_limit_store"]
    assert set(option) == {"description", "version_added", "type", "example", "default", "sensitive"}
    assert option["default"] == DEFAULT_RATE_STORE
    assert backend_at(option["example"]).where == option["example"]
