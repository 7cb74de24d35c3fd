"""The hook of the book database: what it asks for, how fast, and what it says of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

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
from tests.unit.loopback import Loopback, answering, closed_port

if TYPE_CHECKING:
    from collections.abc import Callable

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


@pytest.mark.usefixtures("connect")
class TestLists:
    def test_a_list_is_looked_up_in_its_order(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))
        requests_mock.get(address(CALENDAR), **MISSING)

        with BookDatabaseHook() as hook:
            lookups = list(hook.books([CALENDAR, "x", CRIME, "0140449132"]))

        assert [lookup.status for lookup in lookups] == ["not_found", "invalid", "found", "found"]
        assert asked(requests_mock) == [CALENDAR, CRIME]

    def test_nothing_is_asked_before_it_is_wanted(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), json=book(CRIME))

        with BookDatabaseHook() as hook:
            lookups = hook.books([CRIME, CALENDAR])
            assert not requests_mock.called
            next(lookups)

        assert asked(requests_mock) == [CRIME]

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
        connect(password=f"key with {fields}", **{"requests_per_second": "", **fields})
        for isbn13 in (CRIME, CALENDAR, PROGRAMMING):
            requests_mock.get(address(isbn13), json=book(isbn13))

        with BookDatabaseHook() as hook:
            list(hook.books([CRIME, CALENDAR, PROGRAMMING]))

        # Time stands almost still here, so the third waits for both slots before its own.
        assert [pause * rate for pause in pauses] == pytest.approx([1, 2], rel=0.1)

    def test_one_rate_serves_all_hooks_with_one_key(
        self, requests_mock: requests_mock.Mocker, connect: Any, pauses: list[float]
    ) -> None:
        connect(password="key of two hooks", requests_per_second=2)
        requests_mock.get(address(CRIME), json=book(CRIME))

        for _ in range(2):
            with BookDatabaseHook() as hook:
                hook.book(CRIME)

        assert pauses == pytest.approx([0.5], rel=0.1)

    def test_failures_within_bounds_are_results(self, requests_mock: requests_mock.Mocker) -> None:
        requests_mock.get(address(CRIME), status_code=503)
        requests_mock.get(address(CALENDAR), json=book(CALENDAR))

        with BookDatabaseHook() as hook:
            lookups = list(hook.books([CRIME, CALENDAR], max_failures=1))
            assert [lookup.status for lookup in lookups] == ["failed", "found"]
            with pytest.raises(ServiceUnavailableError):
                list(hook.books([CRIME]))

    def test_the_limit_of_429_is_waited_out(
        self, requests_mock: requests_mock.Mocker, connect: Any, pauses: list[float]
    ) -> None:
        connect(max_attempts=2)
        limited = {"status_code": 429, "json": LIMIT_429, "headers": {"Retry-After": "3"}}
        requests_mock.get(address(CRIME), [limited, {"json": book(CRIME)}])

        with BookDatabaseHook() as hook:
            assert next(hook.books([CRIME])).status == "found"

        assert 3 in pauses


class TestOnTheEventLoop:
    async def test_the_asynchronous_twins_do_the_same(self, connect: Any) -> None:
        seen: list[bytes] = []
        replies = [found(CRIME), no_such_book(), found(CRIME), limit_404(), found(CRIME), limit_404()]
        with Loopback(answering(*map(http, replies), seen=seen)) as server:
            connect(server.base)
            async with BookDatabaseHook() as hook:
                read = await hook.abook("0140449132")
                missing = await hook.alookup(CALENDAR)
                lookups = [lookup async for lookup in hook.abooks(["x", CRIME, CALENDAR, CRIME])]
            assert server.accepted == 1
        assert read.record == book(CRIME)["book"]
        assert missing.status == "not_found"
        assert [lookup.status for lookup in lookups] == ["invalid", "found", "not_found", "found"]
        assert [request.split()[1] for request in seen[2:]] == [
            f"/book/{isbn13}".encode() for isbn13 in (CRIME, CALENDAR, CRIME, CALENDAR)
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
