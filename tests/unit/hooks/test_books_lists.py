"""The hook of the book database over whole lists: their order, their rate, bulk requests, and what is left behind."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.exceptions import ServiceUnavailableError
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from tests.unit.book_database import CALENDAR, CRIME, asked, book
from tests.unit.hooks.book_hook import BASE, MISSING, address
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, Peer

if TYPE_CHECKING:
    from collections.abc import Iterator

    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")


@pytest.fixture
def no_thread_left() -> Iterator[None]:
    """See that no thread of a walk outlives it."""
    yield
    deadline = time.monotonic() + 120
    while threads_of_walks() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads_of_walks() == []


def threads_of_walks() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mediaops-loop"]


@pytest.mark.usefixtures("connect_books", "no_thread_left")
class TestLists:
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


@pytest.mark.usefixtures("connect_books", "no_thread_left")
class TestBulk:
    def test_one_request_asks_for_as_many_books_as_the_plan_allows(
        self, requests_mock: requests_mock.Mocker, connect_books: Any
    ) -> None:
        isbns = sample_isbns(25)
        wanted: list[list[str]] = []

        def many(request: Any, _: Any) -> dict[str, Any]:
            wanted.append(request.json()["isbns"])
            return {"data": [{"isbn13": isbn13} for isbn13 in wanted[-1]]}

        requests_mock.post(f"{BASE}/books", json=many)
        with BookDatabaseHook() as hook:
            updates = list(hook.lookup_batch(map(IsbnRow.of, isbns), bulk=True))

        assert [done.status for update in updates for done in update.done] == ["found"] * 25
        assert sorted(wanted) == [isbns[:10], isbns[10:20], isbns[20:]]

    def test_a_service_without_it_is_told_of_in_the_log(
        self, requests_mock: requests_mock.Mocker, connect_books: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, BookDatabaseHook)
        requests_mock.post(f"{BASE}/books", status_code=405)
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook() as hook:
            updates = list(hook.lookup_batch([IsbnRow.of(CRIME)], bulk=True))

        assert [done.status for update in updates for done in update.done] == ["found"]
        assert any(line.startswith("WARNING: The book database has no bulk requests") for line in lines)
