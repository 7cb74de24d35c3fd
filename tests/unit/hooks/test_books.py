"""The hook of the book database: what it asks for, how fast, and what it says of a connection."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import threading
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from airflow_provider_mediaops.books.course import WalkOptions
from airflow_provider_mediaops.books.inputs import Input
from airflow_provider_mediaops.books.isbn import InvalidIsbnError
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidConnectionError,
    NotFoundError,
    QuotaExceededError,
    RateLimitedError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.sandbox.isbn import sample_isbns
from tests.unit.book_database import (
    CALENDAR,
    CRIME,
    KEY,
    LIMIT_404,
    LIMIT_429,
    NO_SUCH_BOOK,
    PROGRAMMING,
    book,
    connection,
    found,
    http,
    limit_404,
    no_such_book,
    replied,
)
from tests.unit.log_lines import log_lines
from tests.unit.loopback import Loopback, Peer, answering, closed_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import requests_mock

pytestmark = pytest.mark.usefixtures("supervisor")

BASE = "https://books.example/premium"
DOUBT: dict[str, Any] = {"status_code": 404, "json": LIMIT_404}
MISSING: dict[str, Any] = {"status_code": 404, "json": NO_SUCH_BOOK}


def address(isbn13: str) -> str:
    return f"{BASE}/book/{isbn13}"


def asked(requests_mock: requests_mock.Mocker) -> list[str]:
    return [request.path.rpartition("/")[2] for request in requests_mock.request_history]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the default connection."""

    def set_connection(host: str = BASE, **fields: Any) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT", connection(host, **fields))

    set_connection()
    return set_connection


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have the pauses that are asked for, without waiting for them."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    return slept


@pytest.mark.usefixtures("connect")
class TestOneBook:
    def test_a_book_is_given_as_it_came(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME, unknown={"deep": [1, None]}, authors={"0": "F. D."}))

        with BookDatabaseHook() as hook:
            read = hook.book("ISBN 0-14-044913-2")

        assert read.record == book(CRIME, unknown={"deep": [1, None]}, authors={"0": "F. D."})["book"]
        assert read.authors == ["F. D."]

    def test_the_key_is_in_the_header_and_nowhere_else(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook() as hook:
            hook.book(CRIME)

        request = requests_mock.last_request
        assert request is not None
        assert request.headers["Authorization"] == KEY
        assert request.url == address(CRIME)

    def test_a_text_that_is_no_isbn_spends_no_request(self, requests_mock: requests_mock.Mocker) -> None:
        with BookDatabaseHook() as hook, pytest.raises(InvalidIsbnError, match="check digit"):
            hook.book("9780140449137")

        assert not requests_mock.called

    def test_a_book_that_is_not_there_is_an_error(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), **MISSING)

        with BookDatabaseHook() as hook, pytest.raises(NotFoundError, match="no record of this book"):
            hook.book(CRIME)

    def test_a_look_up_is_a_result_where_book_raises(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))
        requests_mock.get(address(CALENDAR), **MISSING)

        with BookDatabaseHook() as hook:
            there, missing, invalid = hook.lookup("0140449132"), hook.lookup(CALENDAR), hook.lookup("x")

        assert (there.status, there.isbn13, there.input) == ("found", CRIME, "0140449132")
        assert there.book is not None
        assert (missing.status, missing.book, missing.error) == ("not_found", None, None)
        assert (invalid.status, invalid.isbn13) == ("invalid", None)
        assert invalid.error == "'x' is no ISBN: it must have 10 or 13 digits, not 1."

    def test_what_the_service_refuses_is_an_error_of_a_look_up_too(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), status_code=403, json={"message": "Daily quota exceeded"})

        with BookDatabaseHook() as hook, pytest.raises(QuotaExceededError):
            hook.lookup(CRIME)

    def test_the_canary_tells_a_book_that_is_not_there_from_the_limit(
        self, requests_mock: requests_mock.Mocker, connect: Any
    ) -> None:
        connect(canary_isbn="0-13-110362-8")
        requests_mock.get(address(CRIME), **DOUBT)
        requests_mock.get(address(PROGRAMMING), json=book(PROGRAMMING))

        with BookDatabaseHook() as hook:
            assert hook.lookup(CRIME).status == "not_found"

    def test_a_book_found_before_does_so_without_a_canary(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), **DOUBT)
        requests_mock.get(address(CALENDAR), json=book(CALENDAR))

        with BookDatabaseHook() as hook:
            assert hook.lookup(CALENDAR).status == "found"
            assert hook.lookup(CRIME).status == "not_found"

    def test_a_doubtful_404_is_never_taken_for_no_such_book(
        self, requests_mock: requests_mock.Mocker, connect: Any, pauses: list[float]
    ) -> None:
        connect(max_attempts=3)
        requests_mock.get(address(CRIME), **DOUBT)

        with BookDatabaseHook() as hook, pytest.raises(RateLimitedError, match="canary_isbn"):
            hook.lookup(CRIME)

        assert asked(requests_mock) == [CRIME] * 3


@pytest.fixture
def no_thread_left() -> Iterator[None]:
    """See that no thread of a walk outlives it."""
    yield
    deadline = time.monotonic() + 5
    while threads_of_walks() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads_of_walks() == []


def threads_of_walks() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("mediaops-")]


@pytest.mark.usefixtures("connect", "no_thread_left")
class TestLists:
    def test_a_list_is_looked_up_in_its_order(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))
        requests_mock.get(address(CALENDAR), **MISSING)

        with BookDatabaseHook() as hook:
            lookups = list(hook.books([CALENDAR, "x", CRIME, "0140449132"]))

        assert [lookup.status for lookup in lookups] == ["not_found", "invalid", "found", "found"]
        assert [lookup.requests for lookup in lookups] == [1, 0, 1, 0]
        assert asked(requests_mock) == [CALENDAR, CRIME]

    def test_nothing_is_asked_before_it_is_wanted(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))
        requests_mock.get(address(CALENDAR), json=book(CALENDAR))

        with BookDatabaseHook() as hook:
            lookups = hook.books([CRIME, CALENDAR])
            assert not requests_mock.called
            assert next(lookups).isbn13 == CRIME

        assert asked(requests_mock)[0] == CRIME

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
    def test_requests_are_spread_at_the_rate_of_the_plan(
        self,
        requests_mock: requests_mock.Mocker,
        connect: Any,
        pauses: list[float],
        fields: dict[str, Any],
        rate: float,
    ) -> None:
        connect(**{"requests_per_second": "", **fields})
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook() as hook:
            for _ in range(2):
                hook.book(CRIME)

        assert pauses[0] * rate == pytest.approx(1, rel=0.1)

    def test_lists_are_looked_up_at_that_rate(self, requests_mock: requests_mock.Mocker, connect: Any) -> None:
        connect(requests_per_second=25)
        isbns = sample_isbns(10)
        for isbn13 in isbns:
            requests_mock.get(address(isbn13), json=book(isbn13))

        with BookDatabaseHook() as hook:
            started = time.monotonic()
            assert len(list(hook.books(isbns))) == 10

        assert time.monotonic() - started >= 9 / 25

    def test_one_rate_serves_all_hooks_with_one_key(
        self, requests_mock: requests_mock.Mocker, connect: Any, pauses: list[float]
    ) -> None:
        connect(requests_per_second=2)
        requests_mock.get(address(CRIME), json=book(CRIME))

        for _ in range(2):
            with BookDatabaseHook() as hook:
                hook.book(CRIME)

        assert pauses[0] == pytest.approx(0.5, rel=0.1)

    def test_failures_within_bounds_are_results(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), status_code=503)
        requests_mock.get(address(CALENDAR), json=book(CALENDAR))

        with BookDatabaseHook() as hook:
            lookups = list(hook.books([CRIME, CALENDAR], max_failures=1))
            assert [lookup.status for lookup in lookups] == ["failed", "found"]
            with pytest.raises(ServiceUnavailableError):
                list(hook.books([CRIME]))

    def test_a_service_that_stumbles_is_asked_again_later(
        self, requests_mock: requests_mock.Mocker, connect: Any
    ) -> None:
        connect(max_attempts=2)
        down = {"status_code": 503, "headers": {"Retry-After": "0.01"}}
        requests_mock.get(address(CRIME), [down, down, {"json": book(CRIME)}])

        with BookDatabaseHook() as hook:
            stretches = list(hook.walk([Input.of(CRIME)], options=WalkOptions(again_after=(0.01,))))

        assert [done.lookup.status for stretch in stretches for done in stretch.done] == ["found"]

    def test_the_limit_of_429_is_waited_out(self, requests_mock: requests_mock.Mocker, connect: Any) -> None:
        connect(max_attempts=2)
        limited = {"status_code": 429, "json": LIMIT_429, "headers": {"Retry-After": "0.1"}}
        requests_mock.get(address(CRIME), [limited, {"json": book(CRIME)}])

        with BookDatabaseHook() as hook:
            assert next(hook.books([CRIME])).status == "found"

    def test_a_doubtful_404_is_settled_by_the_well_known_book_where_nothing_better_is_known(
        self, requests_mock: requests_mock.Mocker
    ) -> None:
        requests_mock.get(address(CALENDAR), **DOUBT)
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook() as hook:
            assert [lookup.status for lookup in hook.books([CALENDAR])] == ["not_found"]

        assert asked(requests_mock) == [CALENDAR, CRIME, CALENDAR, CRIME]

    def test_a_doubtful_404_is_never_taken_for_no_such_book(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(re.compile("/book/"), **DOUBT)

        with BookDatabaseHook() as hook, pytest.raises(RateLimitedError, match="canary_isbn"):
            list(hook.books([CALENDAR]))

    def test_what_is_about_the_key_ends_the_list_after_what_was_found(
        self, requests_mock: requests_mock.Mocker
    ) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))
        requests_mock.get(address(CALENDAR), status_code=403, json={"message": "Daily quota exceeded"})

        with BookDatabaseHook() as hook:
            lookups = hook.books([CRIME, CALENDAR], max_failures=9)
            assert next(lookups).status == "found"
            with pytest.raises(QuotaExceededError):
                next(lookups)

    def test_a_caller_that_is_interrupted_leaves_nothing_behind(self, connect: Any) -> None:
        def interrupt(*_: object) -> None:
            raise TimeoutError("the task's time is up")

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with Loopback(Peer.pause) as server, BookDatabaseHook() as hook:
                connect(server.base)
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                with pytest.raises(TimeoutError, match="the task's time is up"):
                    next(hook.books([CRIME]))
        finally:
            signal.signal(signal.SIGALRM, before)


class TestOnTheEventLoop:
    async def test_the_asynchronous_twins_do_the_same(self, connect: Any) -> None:
        seen: list[bytes] = []
        doubt = limit_404()
        replies = [found(CRIME), no_such_book(), found(CRIME), doubt, found(CRIME), doubt, found(CRIME)]
        with Loopback(answering(*map(http, replies), seen=seen)) as server:
            connect(server.base)
            async with BookDatabaseHook() as hook:
                read = await hook.abook("0140449132")
                missing = await hook.alookup(CALENDAR)
                lookups = [lookup async for lookup in hook.abooks(["x", CRIME, CALENDAR, CRIME])]
        assert read.record == book(CRIME)["book"]
        assert missing.status == "not_found"
        assert [lookup.status for lookup in lookups] == ["invalid", "found", "not_found", "found"]
        assert [request.split()[1] for request in seen[2:]] == [
            f"/book/{isbn13}".encode() for isbn13 in (CRIME, CALENDAR, CRIME, CALENDAR, CRIME)
        ]
        assert all(f"authorization: {KEY}".encode() in request.lower() for request in seen)

    async def test_errors_have_the_same_types(self, connect: Any) -> None:
        with Loopback(answering(http(no_such_book()), http(replied({}, 401)))) as server:
            connect(server.base)
            async with BookDatabaseHook() as hook:
                with pytest.raises(InvalidIsbnError):
                    await hook.abook("x")
                with pytest.raises(NotFoundError):
                    await hook.abook(CRIME)
                with pytest.raises(AuthenticationError):
                    await anext(hook.abooks([CRIME]))

    async def test_a_list_that_is_given_up_leaves_nothing_behind(self, connect: Any) -> None:
        with Loopback(answering(http(found(CRIME)))) as server:
            connect(server.base)
            async with BookDatabaseHook() as hook, aclosing(hook.abooks([CRIME, CALENDAR])) as lookups:
                assert (await anext(lookups)).status == "found"

        assert {task for task in asyncio.all_tasks() if task is not asyncio.current_task()} == set()


@pytest.mark.usefixtures("connect", "no_thread_left")
class TestBulk:
    def test_one_request_asks_for_as_many_books_as_the_plan_allows(
        self, requests_mock: requests_mock.Mocker, connect: Any
    ) -> None:
        isbns = sample_isbns(25)
        wanted: list[list[str]] = []

        def many(request: Any, _: Any) -> dict[str, Any]:
            wanted.append(request.json()["isbns"])
            return {"data": [{"isbn13": isbn13} for isbn13 in wanted[-1]]}

        requests_mock.post(f"{BASE}/books", json=many)
        with BookDatabaseHook() as hook:
            stretches = list(hook.walk(map(Input.of, isbns), bulk=True))

        assert [done.lookup.status for stretch in stretches for done in stretch.done] == ["found"] * 25
        assert wanted == [isbns[:10], isbns[10:20], isbns[20:]]

    def test_a_service_without_it_is_told_of_in_the_log(
        self, requests_mock: requests_mock.Mocker, connect: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lines = log_lines(monkeypatch, BookDatabaseHook)
        requests_mock.post(f"{BASE}/books", status_code=405)
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook() as hook:
            stretches = list(hook.walk([Input.of(CRIME)], bulk=True))

        assert [done.lookup.status for stretch in stretches for done in stretch.done] == ["found"]
        assert any(line.startswith("WARNING: The book database has no bulk requests") for line in lines)


class TestTheConnection:
    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"password": ""}, "password"),
            ({"password": "two\nlines"}, "password"),
            ({"plan": "gold"}, "plan"),
            ({"requests_per_second": 0}, "requests_per_second"),
            ({"requests_per_second": "fast"}, "requests_per_second"),
            ({"canary_isbn": "9780140449137"}, "canary_isbn"),
            ({"host": ""}, "host"),
        ],
    )
    def test_a_field_that_cannot_be_used_is_named(self, connect: Any, fields: dict[str, Any], field: str) -> None:
        connect(**fields)

        with BookDatabaseHook() as hook, pytest.raises(InvalidConnectionError, match=f"field '{field}'"):
            hook.book(CRIME)

    def test_another_connection_can_be_named(
        self, requests_mock: requests_mock.Mocker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SHELF", connection(BASE, password="another-key"))
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook("shelf") as hook:
            hook.book(CRIME)

        request = requests_mock.last_request
        assert request is not None
        assert request.headers["Authorization"] == "another-key"

    def test_a_refusal_that_echoes_the_key_does_not_show_it(
        self, requests_mock: requests_mock.Mocker, connect: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connect(max_attempts=2)
        monkeypatch.setattr("time.sleep", lambda _: None)
        lines = log_lines(monkeypatch, BookDatabaseHook)
        echo = {"json": {"message": f"the key {KEY} is busy"}, "headers": {"Retry-After": "5"}}
        requests_mock.get(address(CRIME), [{"status_code": 429, **echo}, {"status_code": 403, **echo}])

        with BookDatabaseHook() as hook, pytest.raises(Exception, match=r"the key .* is busy") as caught:
            hook.book(CRIME)

        assert KEY not in f"{caught.value!r} {vars(caught.value)} {lines} {hook.service.client!r}"
        assert any("is busy" in line for line in lines)


class TestTestConnection:
    QUOTA: ClassVar[dict[str, Any]] = {
        "json": {"api_host": "api.example", "plan_limit": {"total": 5000, "spent": 10, "left": 4990}}
    }

    def test_a_key_that_tells_of_its_quota(self, requests_mock: requests_mock.Mocker, connect: Any) -> None:
        requests_mock.get(f"{BASE}/key", **self.QUOTA)

        assert BookDatabaseHook().test_connection() == (
            True,
            "The book database answers and accepts the key; 4,990 of its 5,000 requests of today are left.",
        )

    @pytest.mark.parametrize("key_reply", [{"status_code": 404}, {"status_code": 403}, {"json": {"other": 1}}])
    @pytest.mark.parametrize("book_reply", [{"json": book(CRIME)}, MISSING])
    def test_a_service_that_does_not_know_that_call(
        self, requests_mock: requests_mock.Mocker, connect: Any, key_reply: dict[str, Any], book_reply: dict[str, Any]
    ) -> None:
        requests_mock.get(f"{BASE}/key", **key_reply)
        requests_mock.get(address(CRIME), **book_reply)

        assert BookDatabaseHook().test_connection() == (True, "The book database answers and accepts the key.")

    def test_the_canary_is_asked_for_where_there_is_one(
        self, requests_mock: requests_mock.Mocker, connect: Any
    ) -> None:
        connect(canary_isbn=PROGRAMMING)
        requests_mock.get(f"{BASE}/key", status_code=404)
        requests_mock.get(address(PROGRAMMING), json=book(PROGRAMMING))

        assert BookDatabaseHook().test_connection()[0]

    @pytest.mark.parametrize(
        ("reply", "words"),
        [
            ({"status_code": 401, "json": {"message": "Unauthorized"}}, ["401", "missing or not active", "password"]),
            (
                {"status_code": 403, "json": {"message": "Forbidden"}},
                ["403", "another plan than the key's", "key is wrong"],
            ),
            ({"status_code": 403, "json": {"message": "Daily quota exceeded"}}, ["daily quota", "00:00 UTC"]),
            ({"status_code": 429, "json": LIMIT_429}, ["Limit Exceeded", "plan"]),
            (DOUBT, ["limit is reached, or that there is no such book"]),
            ({"status_code": 404, "text": "<html>"}, ["404", "base address"]),
            ({"text": "<html>Sign in</html>"}, ["a web page", "base address"]),
            ({"status_code": 502, "text": "<html>"}, ["502"]),
        ],
    )
    def test_what_is_wrong_is_said_in_one_message(
        self, requests_mock: requests_mock.Mocker, connect: Any, reply: dict[str, Any], words: list[str]
    ) -> None:
        requests_mock.get(f"{BASE}/key", **reply)
        requests_mock.get(address(CRIME), **reply)

        worked, said = BookDatabaseHook().test_connection()

        assert not worked
        assert all(word in said for word in words), said
        assert KEY not in said

    def test_nobody_there(self, connect: Any) -> None:
        connect(f"http://127.0.0.1:{closed_port()}")

        worked, said = BookDatabaseHook().test_connection()

        assert not worked
        assert "Check host and port" in said
