from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.books.api import BOOK_RULES
from airflow_provider_mediaops.books.lookup import Finder
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.book_database import (
    CALENDAR,
    CRIME,
    LIMIT_429,
    PROGRAMMING,
    book,
    found,
    limit_404,
    no_such_book,
    replied,
)
from tests.unit.conversations import FakeClock, items_of, pauses_of, replay, requests_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.http.exchange import Response, Step

CANARY = PROGRAMMING


class Desk:
    """A finder over a client, and what it asked."""

    def __init__(self, *, canary: str | None = None, tries: int = 3) -> None:
        self.clock = FakeClock()
        client = Client(
            ("https://books.example",), BOOK_RULES, retry=RetryPolicy(max_attempts=tries), clock=self.clock.clock
        )
        self.finder = Finder(client.ask, lambda: client.retry.start(client.clock), canary)
        self.steps: list[Step] = []

    def find(self, isbn13: str, *replies: Response | TransportError) -> dict[str, object]:
        found = replay(self.finder.find(isbn13), replies, steps=self.steps, clock=self.clock)
        return dict(found.record)

    def look_up_all(
        self, texts: list[str], *replies: Response | TransportError, max_failures: int = 0
    ) -> list[tuple[str, str | None, str, int]]:
        steps: list[Step] = []
        try:
            walk = self.finder.look_up_all(texts, max_failures=max_failures)
            replay(walk, replies, steps=steps, clock=self.clock)
        finally:
            self.steps += steps
        return [(lookup.input, lookup.isbn13, lookup.status, lookup.requests) for lookup in items_of(steps)]

    @property
    def asked(self) -> list[str]:
        return [request.path.rpartition("/")[2] for request in requests_of(self.steps)]


def test_a_book_that_is_there_takes_one_request() -> None:
    desk = Desk(canary=CANARY)

    assert desk.find(CRIME, found(CRIME)) == book(CRIME)["book"]
    assert desk.asked == [CRIME]


def test_a_404_that_is_about_the_book_is_believed() -> None:
    desk = Desk(canary=CANARY)

    with pytest.raises(NotFoundError, match=f"GET /book/{CRIME} with 404"):
        desk.find(CRIME, no_such_book())

    assert desk.asked == [CRIME]


def test_a_404_is_about_the_book_where_the_canary_is_found_and_the_book_again_is_not() -> None:
    desk = Desk(canary=CANARY)

    with pytest.raises(NotFoundError) as caught:
        desk.find(CRIME, limit_404(), found(CANARY), limit_404())

    assert desk.asked == [CRIME, CANARY, CRIME]
    assert (caught.value.status, caught.value.service) == (404, "book database")
    assert pauses_of(desk.steps) == []


def test_a_limit_that_passed_before_the_canary_was_asked_loses_no_book() -> None:
    desk = Desk(canary=CANARY)

    assert desk.find(CRIME, limit_404(), found(CANARY), found(CRIME)) == book(CRIME)["book"]


def test_a_limit_that_the_canary_meets_too_is_waited_out() -> None:
    desk = Desk(canary=CANARY)

    assert desk.find(CRIME, limit_404(), limit_404(), found(CRIME)) == book(CRIME)["book"]
    assert desk.asked == [CRIME, CANARY, CRIME]
    assert pauses_of(desk.steps) == [0.5]


def test_a_limit_that_goes_on_is_an_error_and_never_no_such_book() -> None:
    desk = Desk(canary=CANARY, tries=3)

    with pytest.raises(RateLimitedError, match=f"{CANARY} exists, for that is not found either") as caught:
        desk.find(CRIME, *[limit_404()] * 6)

    assert desk.asked == [CRIME, CANARY] * 3
    assert pauses_of(desk.steps) == [0.5, 1.0]
    assert (caught.value.status, caught.value.path) == (404, f"/book/{CRIME}")


def test_without_a_witness_a_doubtful_404_is_an_error_and_never_no_such_book() -> None:
    desk = Desk(tries=3)

    with pytest.raises(RateLimitedError, match="set canary_isbn in the connection"):
        desk.find(CRIME, *[limit_404()] * 3)

    assert desk.asked == [CRIME] * 3
    assert pauses_of(desk.steps) == [0.5, 1.0]


def test_without_a_witness_the_book_may_be_found_after_a_pause() -> None:
    assert Desk().find(CRIME, limit_404(), found(CRIME)) == book(CRIME)["book"]


def test_a_canary_that_does_not_exist_is_no_witness() -> None:
    desk = Desk(canary=CANARY, tries=2)

    with pytest.raises(RateLimitedError):
        desk.find(CRIME, limit_404(), no_such_book(), limit_404(), no_such_book())


def test_the_last_book_found_is_a_witness() -> None:
    desk = Desk()
    desk.find(CALENDAR, found(CALENDAR))

    with pytest.raises(NotFoundError):
        desk.find(CRIME, limit_404(), found(CALENDAR), limit_404())


def test_the_last_book_found_goes_before_the_canary() -> None:
    desk = Desk(canary=CANARY)
    desk.find(CALENDAR, found(CALENDAR))

    with pytest.raises(NotFoundError):
        desk.find(CRIME, limit_404(), found(CALENDAR), limit_404())

    assert CANARY not in desk.asked


def test_a_book_is_no_witness_for_itself() -> None:
    desk = Desk(canary=CANARY)
    desk.find(CRIME, found(CRIME))

    with pytest.raises(NotFoundError):
        desk.find(CRIME, limit_404(), found(CANARY), limit_404())


def test_the_limit_of_429_is_waited_out() -> None:
    desk = Desk()

    assert desk.find(CRIME, replied(LIMIT_429, 429, retry_after="7"), found(CRIME)) == book(CRIME)["book"]
    assert pauses_of(desk.steps) == [7.0]


def test_a_list_keeps_its_order_and_asks_for_each_book_once() -> None:
    desk = Desk()
    texts = ["0-14-044913-2", "no ISBN", CALENDAR, CRIME, "no ISBN", f"ISBN {CALENDAR}", "0140449132"]

    assert desk.look_up_all(texts, found(CRIME), no_such_book()) == [
        ("0-14-044913-2", CRIME, "found", 1),
        ("no ISBN", None, "invalid", 0),
        (CALENDAR, CALENDAR, "not_found", 1),
        (CRIME, CRIME, "found", 0),
        ("no ISBN", None, "invalid", 0),
        (f"ISBN {CALENDAR}", CALENDAR, "not_found", 0),
        ("0140449132", CRIME, "found", 0),
    ]
    assert desk.asked == [CRIME, CALENDAR]


def test_every_request_of_a_look_up_is_counted() -> None:
    desk = Desk(canary=CANARY)
    lost = TransportError(Failure.BROKEN, "the line is cut")

    assert desk.look_up_all([CRIME], lost, limit_404(), found(CANARY), found(CRIME)) == [(CRIME, CRIME, "found", 4)]


@pytest.mark.parametrize("texts", [[], ["", "x", "9780131103628"]])
def test_a_list_without_an_isbn_spends_no_request(texts: list[str]) -> None:
    assert desk_statuses(texts) == ["invalid"] * len(texts)


def desk_statuses(texts: list[str]) -> list[str]:
    return [status for _, _, status, _ in Desk().look_up_all(texts)]


def test_failures_within_bounds_are_rows() -> None:
    desk = Desk(tries=2)
    down = replied(b"", 503)

    looked_up = desk.look_up_all([CRIME, CALENDAR, CRIME], down, down, replied(b"<html>"), found(CRIME), max_failures=2)

    assert looked_up == [(CRIME, CRIME, "failed", 2), (CALENDAR, CALENDAR, "failed", 1), (CRIME, CRIME, "found", 1)]


def test_a_failed_row_says_why() -> None:
    desk = Desk(tries=1)
    steps: list[Step] = []

    replay(desk.finder.look_up_all([CRIME], max_failures=1), [replied(b"", 503)], steps=steps)

    [lookup] = items_of(steps)
    assert "503" in lookup.error
    assert lookup.book is None


@pytest.mark.parametrize(
    ("reply", "cls"),
    [
        (replied(b"", 503), ServiceUnavailableError),
        (limit_404(), RateLimitedError),
        (replied(b"[]"), InvalidReplyError),
    ],
)
def test_one_failure_too_many_is_raised_as_what_it_is(reply: Response, cls: type[MediaOpsError]) -> None:
    desk = Desk(tries=1)

    with pytest.raises(cls):
        desk.look_up_all([CRIME, CALENDAR, PROGRAMMING], reply, reply, max_failures=1)

    assert desk.asked == [CRIME, CALENDAR]


@pytest.mark.parametrize(
    ("reply", "cls"),
    [
        (replied({"message": "Unauthorized"}, 401), AuthenticationError),
        (replied({"message": "Forbidden"}, 403), PermissionDeniedError),
        (replied({"message": "Daily quota exceeded"}, 403), QuotaExceededError),
        (replied({"message": "Daily quota exceeded"}, 429), QuotaExceededError),
    ],
)
def test_what_is_about_the_key_ends_the_list_at_once(reply: Response, cls: type[MediaOpsError]) -> None:
    desk = Desk()

    with pytest.raises(cls):
        desk.look_up_all([CRIME, CALENDAR], reply, max_failures=10)

    assert desk.asked == [CRIME]


def test_a_list_is_read_no_further_than_it_is_looked_up() -> None:
    read = []

    def texts() -> Iterator[str]:
        for text in (CRIME, CALENDAR):
            read.append(text)
            yield text

    walk = Desk().finder.look_up_all(texts())
    next(walk)
    walk.send(found(CRIME))

    assert read == [CRIME]
    walk.close()
