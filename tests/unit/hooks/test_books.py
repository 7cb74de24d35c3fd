"""The hook of the book database: one book, whole lists, bulk requests, and what it leaves behind."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.api import KeyUsage
from airflow_provider_mediaops.exceptions import NotFoundError, ServiceUnavailableError
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from tests.unit.book_database import CALENDAR, CRIME, NO_SUCH_BOOK, asked, book
from tests.unit.hooks.conftest import BOOKS
from tests.unit.loopback import Loopback, Peer

if TYPE_CHECKING:
    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor", "connect_books")

MISSING: dict[str, Any] = {"status_code": 404, "json": NO_SUCH_BOOK}


def address(isbn13: str) -> str:
    return f"{BOOKS}/book/{isbn13}"


@pytest.mark.parametrize(
    ("reply", "usage"),
    [
        ({"json": {"plan_limit": {"total": 5000, "spent": 10, "left": "4990"}}}, KeyUsage(total=5000, left=4990)),
        ({"status_code": 404, "json": {}}, None),
        ({"status_code": 403, "json": {}}, None),
        ({"json": {"x": 1}}, None),
    ],
)
def test_quota_of_today_is_read_where_the_service_tells(
    requests_mock: requests_mock.Mocker, reply: dict[str, Any], usage: KeyUsage | None
) -> None:
    requests_mock.get(f"{BOOKS}/key", **reply)

    with BookDatabaseHook() as hook:
        assert hook.key_usage() == usage


class TestOneBook:
    def test_a_book_is_given_as_it_came(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME, unknown={"deep": [1, None]}, authors={"0": "F. D."}))

        with BookDatabaseHook() as hook:
            read = hook.book("ISBN 0-14-044913-2")

        assert read.record == book(CRIME, unknown={"deep": [1, None]}, authors={"0": "F. D."})["book"]
        assert read.authors == ["F. D."]

    def test_a_book_that_is_not_there_is_an_error(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CALENDAR), **MISSING)
        # Nothing else is known to exist.
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook() as hook, pytest.raises(NotFoundError, match="no record of this book"):
            hook.book(CALENDAR)

        assert asked(requests_mock) == [CALENDAR, CRIME]

    def test_a_look_up_is_a_result_where_book_raises(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))
        requests_mock.get(address(CALENDAR), **MISSING)

        with BookDatabaseHook() as hook:
            there, missing, invalid = hook.lookup("0140449132"), hook.lookup(CALENDAR), hook.lookup("x")

        assert (there.status, there.isbn13, there.input) == ("found", CRIME, "0140449132")
        assert (missing.status, missing.book, missing.error) == ("not_found", None, None)
        assert (invalid.status, invalid.isbn13) == ("invalid", None)
        assert invalid.error == "'x' is not an ISBN: it must have 10 or 13 digits, not 1."


def threads_of_walks() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mediaops-loop"]


class TestLists:
    @pytest.fixture(autouse=True)
    def _no_thread_left(self) -> Iterator[None]:
        """See that no thread of a walk outlives it."""
        yield
        deadline = time.monotonic() + 240
        while threads_of_walks() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threads_of_walks() == []

    def test_a_list_is_looked_up_in_its_order(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))
        requests_mock.get(address(CALENDAR), **MISSING)

        with BookDatabaseHook() as hook:
            lookups = list(hook.books([CALENDAR, "x", CRIME, "0140449132"]))

        assert [lookup.status for lookup in lookups] == ["not_found", "invalid", "found", "found"]
        assert [lookup.requests for lookup in lookups] == [1, 0, 1, 0]
        assert sorted(asked(requests_mock)) == sorted([CALENDAR, CRIME])

    def test_a_list_that_has_no_end_is_looked_up_as_far_as_it_is_wanted(
        self, requests_mock: requests_mock.Mocker
    ) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook() as hook:
            lookups = hook.books(itertools.cycle([CRIME, "x"]))
            assert [lookup.status for lookup in itertools.islice(lookups, 300)] == ["found", "invalid"] * 150

    @pytest.mark.parametrize(
        ("fields", "rate"),
        [
            ({}, 1),
            ({"plan": "default"}, 1),
            ({"plan": "PREMIUM"}, 3),
            ({"plan": "pro"}, 5),
            ({"plan": "pro", "requests_per_second": "0.5"}, 0.5),
        ],
    )
    def test_the_rate_is_that_of_the_plan(self, connect_books: Any, fields: dict[str, Any], rate: float) -> None:
        connect_books(**{"requests_per_second": "", **fields})
        with BookDatabaseHook() as hook:
            limiter = hook.service.client.limiter
        assert limiter
        assert limiter.per_second == rate

    def test_failures_within_bounds_are_results(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), status_code=503)
        requests_mock.get(address(CALENDAR), json=book(CALENDAR))

        with BookDatabaseHook() as hook:
            lookups = list(hook.books([CRIME, CALENDAR], max_failures=1))
            assert [lookup.status for lookup in lookups] == ["failed", "found"]
            with pytest.raises(ServiceUnavailableError):
                list(hook.books([CRIME]))

    def test_a_caller_that_is_interrupted_leaves_nothing_behind(self, connect_books: Any) -> None:
        def interrupt(*_: object) -> None:
            raise TimeoutError("the task's time is up")

        def alarm(peer: Peer) -> None:
            peer.request()
            signal.pthread_kill(main, signal.SIGALRM)
            peer.pause()

        main = threading.get_ident()
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with Loopback(alarm) as server, BookDatabaseHook() as hook:
                connect_books(server.base)
                with pytest.raises(TimeoutError, match="the task's time is up"):
                    next(hook.books([CRIME]))
        finally:
            signal.signal(signal.SIGALRM, before)
