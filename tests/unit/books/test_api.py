from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.api import (
    BulkReply,
    DoubtfulNotFoundError,
    ForeignNotFoundError,
    KeyUsage,
    WebPageNotFoundError,
    get_book,
    get_books,
    get_key_usage,
)
from airflow_provider_mediaops.books.lookup import read_key_usage
from airflow_provider_mediaops.books.models import Book
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.auth import Auth
from airflow_provider_mediaops.http.exchange import Response
from tests.unit.book_database import CALENDAR, CRIME, KEY, LIMIT_404, LIMIT_429, NO_SUCH_BOOK, book, replied
from tests.unit.books.clients import client
from tests.unit.call_flows import FakeClock, replay, requests_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Step


def test_a_book_is_asked_for_with_the_key_in_the_header_only() -> None:
    steps: list[Step] = []

    with_key = client(auth=Auth(KEY, (KEY,)))
    found = replay(with_key.ask(get_book(CRIME)), [replied(book(CRIME, unknown=[1]))], steps=steps)

    [request] = requests_of(steps)
    assert (request.method, request.url) == ("GET", f"https://books.example/book/{CRIME}")
    assert request.headers == {"Authorization": KEY}
    assert request.body is None
    assert found.record == book(CRIME, unknown=[1])["book"]


@pytest.mark.parametrize(
    ("status", "body", "cls", "advice"),
    [
        (400, {"message": "no"}, BadRequestError, ""),
        (401, {"message": "Unauthorized"}, AuthenticationError, "or the base address is that of another plan"),
        (403, {"message": "Forbidden"}, PermissionDeniedError, "another plan than the key's, or the key is wrong, or"),
        (403, {"message": "Daily quota exceeded"}, QuotaExceededError, "until 00:00 UTC"),
        (429, LIMIT_429, RateLimitedError, "limit is reached"),
        (429, {"message": "Per minute quota exceeded"}, RateLimitedError, "limit is reached"),
        (429, {"message": "Daily quota exceeded, come back"}, QuotaExceededError, "until 00:00 UTC"),
        (404, LIMIT_404, DoubtfulNotFoundError, "limit is reached, or that there is no such book"),
        (404, {"errorMessage": "Not Found", "message": "x"}, DoubtfulNotFoundError, ""),
        (404, NO_SUCH_BOOK, NotFoundError, "no record of this book"),
        (404, {"error_message": None}, ForeignNotFoundError, "base address"),
        (404, {"message": "no Route matched with those values"}, ForeignNotFoundError, "base address"),
        (404, [], ForeignNotFoundError, "base address"),
        (404, b"", ForeignNotFoundError, "base address"),
        (404, b'{"errorMess', ForeignNotFoundError, "base address"),
        (404, b"<!DOCTYPE html><html>", WebPageNotFoundError, "base address"),
        (500, {}, ServiceUnavailableError, ""),
    ],
)
def test_a_refusal_is_typed_and_says_what_to_do(status: int, body: Any, cls: type[MediaOpsError], advice: str) -> None:
    with pytest.raises(MediaOpsError) as caught:
        replay(client().ask(get_book(CRIME)), [replied(body, status)])

    error = caught.value
    assert type(error) is cls
    assert (error.service, error.status, error.path) == ("book database", status, f"/book/{CRIME}")
    assert advice in error.message


def test_a_daily_quota_comes_back_at_midnight_utc() -> None:
    with pytest.raises(QuotaExceededError) as caught:
        replay(client(clock=FakeClock(seconds=600.0)).ask(get_book(CRIME)), [replied({"message": "daily"}, 429)])

    # Ten past eight in the evening.
    assert caught.value.retry_after == (3 * 60 + 50) * 60


def test_pause_that_the_service_asks_for_goes_before_its_midnight() -> None:
    with pytest.raises(QuotaExceededError) as caught:
        replay(client().ask(get_book(CRIME)), [replied({"message": "daily"}, 403, retry_after="60")])

    assert caught.value.retry_after == 60


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"book":null}', b'{"book":["x"]}', b'{"book":', b"<html>"])
def test_a_reply_without_a_book_is_no_reply(body: bytes) -> None:
    with pytest.raises(InvalidReplyError, match=f"GET /book/{CRIME} with 200"):
        replay(client().ask(get_book(CRIME)), [Response(200, {}, body)])


def test_a_key_tells_of_its_quota() -> None:
    reply = {"api_host": "api.example", "plan_limit": {"total": 5000, "spent": "10", "left": "4990"}}

    assert replay(client().ask(get_key_usage()), [replied(reply)]) == KeyUsage(total=5000, left=4990)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{}", "has no quota"),
        (b'{"plan_limit": {"total": 1}}', "has no quota"),
        (b'{"plan_limit": {"total": "x", "left": 1}}', "has no quota"),
        (b'{"plan_limit": {"total": 1e999, "left": 1}}', "holds a number that is too large: 1e999"),
    ],
)
def test_a_key_that_tells_of_no_quota_is_no_reply(body: bytes, words: str) -> None:
    with pytest.raises(InvalidReplyError, match=words):
        replay(client().ask(get_key_usage()), [Response(200, {}, body)])


@pytest.mark.parametrize("refusal", [Response(404), Response(403), Response(200, {}, b'{"x": 1}')])
def test_a_service_without_the_call_tells_no_quota(refusal: Response) -> None:
    assert replay(read_key_usage(client().ask), [refusal]) is None


def test_many_books_are_asked_for_in_one_request_that_may_be_repeated() -> None:
    request = get_books([CRIME, CALENDAR]).request

    assert (request.method, request.path, request.idempotent) == ("POST", "/books", True)
    assert request.headers == {"Content-Type": "application/json"}
    assert request.body == f'{{"isbns": ["{CRIME}", "{CALENDAR}"]}}'.encode()


RECORD = {"isbn13": CRIME, "unknown": [1]}


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ({"total": 1, "requested": 2, "data": [RECORD]}, BulkReply([Book(RECORD)], taken=2)),
        ({"total": 1, "requested": 2, "books": [RECORD]}, BulkReply([Book(RECORD)], taken=2)),
        ({"total": 3, "data": [RECORD, None, {}]}, BulkReply([Book(RECORD)], odd=True)),
        ({"total": "1", "requested": "2", "data": []}, BulkReply([])),
    ],
)
def test_the_reply_is_read_in_its_newer_and_older_form(reply: dict[str, Any], read: BulkReply) -> None:
    assert get_books([CRIME]).parse(replied(reply)) == read


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({}, "no list of books"),
        ({"data": {}}, "no list of books"),
        ({"total": 3, "data": [RECORD]}, "holds 1 books where it says 3"),
    ],
)
def test_a_reply_that_is_something_else_is_not_believed(reply: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidReplyError, match=words):
        get_books([CRIME]).parse(replied(reply))


@pytest.mark.parametrize(
    "record",
    [
        {"title": "without an ISBN"},
        {"isbn": "n/a", "title": "with none"},
        {"isbn13": "978-0-14-044913-6"},
        {"isbn": "0140449132", "isbn13": "9780306406157"},
        {"isbn10": ["0-14-044913-2"]},
    ],
)
def test_a_record_of_the_book_that_was_asked_for_is_read_in_any_writing(record: dict[str, Any]) -> None:
    assert get_book(CRIME).parse(replied({"book": record})) == Book(record)


@pytest.mark.parametrize("record", [{"isbn13": CALENDAR}, {"isbn": "0-306-40615-2"}, {"isbn13": 9780306406157}])
def test_the_record_of_another_book_is_no_reply(record: dict[str, Any]) -> None:
    with pytest.raises(InvalidReplyError, match="the record of another book, "):
        get_book(CRIME).parse(replied({"book": record}))
