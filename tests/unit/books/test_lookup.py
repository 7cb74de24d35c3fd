from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.books.book_exists import BookWatch
from airflow_provider_mediaops.books.lookup import Finder
from airflow_provider_mediaops.books.not_found import WELL_KNOWN
from airflow_provider_mediaops.exceptions import (
    MediaOpsError,
    NotFoundError,
    RateLimitedError,
)
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.waiting import Done
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
from tests.unit.books.clients import client
from tests.unit.call_flows import FakeClock, pauses_of, replay, requests_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.models import Lookup
    from airflow_provider_mediaops.http.exchange import CallFlow, Response, Step

CANARY = PROGRAMMING


class Desk:
    """A finder over a client, and what it asked."""

    def __init__(self, *, canary: str | None = None, tries: int = 3) -> None:
        self.clock = FakeClock()
        self.finder = Finder(client(tries=tries, clock=self.clock), canary)
        self.steps: list[Step] = []

    def find(self, isbn13: str, *replies: Response | TransportError) -> dict[str, object]:
        found = replay(self.finder.find(isbn13), replies, steps=self.steps, clock=self.clock)
        return dict(found.record)

    def look_up(self, text: str, *replies: Response | TransportError) -> Lookup:
        return replay(self.finder.look_up(text), replies, steps=self.steps, clock=self.clock)

    @property
    def asked(self) -> list[str]:
        return [request.path.rpartition("/")[2] for request in requests_of(self.steps)]


def test_a_404_in_clear_words_costs_one_more_request_until_the_connection_is_proved() -> None:
    desk = Desk(canary=CANARY)

    for replies in ([no_such_book(), found(CANARY)], [no_such_book()]):
        with pytest.raises(NotFoundError, match=f"GET /book/{CRIME} with 404"):
            desk.find(CRIME, *replies)
    assert desk.asked == [CRIME, CANARY, CRIME]

    # The proof does not hold for ever.
    desk.clock.wait(600.0)
    with pytest.raises(NotFoundError):
        desk.find(CRIME, no_such_book(), found(CANARY))


def test_other_words_are_believed_when_they_come_three_times_each_with_a_probe_after_it() -> None:
    desk = Desk(canary=CANARY)

    with pytest.raises(NotFoundError) as caught:
        desk.find(CRIME, *[limit_404(), found(CANARY)] * 3, *[found(CANARY)] * 5)

    # Before the first such words of a run are believed, a book that exists is asked for eight times in all.
    assert desk.asked == [*[CRIME, CANARY] * 3, *[CANARY] * 5]
    with pytest.raises(NotFoundError):
        desk.find(CALENDAR, *[limit_404(), found(CANARY)] * 3)
    assert (caught.value.status, caught.value.service) == (404, "book database")
    assert pauses_of(desk.steps) == []


def test_a_limit_that_the_canary_meets_too_is_waited_out() -> None:
    desk = Desk(canary=CANARY)

    assert desk.find(CRIME, limit_404(), limit_404(), found(CRIME)) == book(CRIME)["book"]
    assert desk.asked == [CRIME, CANARY, CRIME]
    assert pauses_of(desk.steps) == [0.5]


@pytest.mark.parametrize(
    ("canary", "advice"),
    [
        (CANARY, f"nothing else uses the key, and that the book of canary_isbn, {CANARY}, exists there.$"),
        (None, "nothing else uses the key, and set canary_isbn in the connection to a book that exists.$"),
    ],
)
def test_a_limit_that_goes_on_is_an_error_and_never_no_such_book(canary: str | None, advice: str) -> None:
    desk = Desk(canary=canary, tries=3)

    with pytest.raises(RateLimitedError, match=advice) as caught:
        desk.find(CALENDAR, *[limit_404()] * 6)

    assert desk.asked == [CALENDAR, canary or WELL_KNOWN] * 3
    assert pauses_of(desk.steps) == [0.5, 1.0]
    assert (caught.value.status, caught.value.path) == (404, f"/book/{CALENDAR}")


def test_a_429_before_it_makes_a_404_in_the_limits_words_no_proof() -> None:
    desk = Desk(canary=CANARY, tries=2)

    with pytest.raises(RateLimitedError, match="at its limit meanwhile"):
        desk.find(CRIME, *[replied(LIMIT_429, 429), *[limit_404(), found(CANARY)] * 3] * 2)


def test_a_probe_that_met_the_limit_makes_the_limits_words_no_proof_for_the_rest_of_the_run() -> None:
    desk = Desk(canary=CANARY, tries=2)
    desk.find(CRIME, limit_404(), limit_404(), found(CRIME))
    desk.clock.wait(3_600.0)

    with pytest.raises(RateLimitedError, match="A book that exists has got such a reply, too"):
        desk.find(CALENDAR, *[limit_404(), found(CRIME)] * 4)


def test_every_request_of_a_look_up_is_counted() -> None:
    desk = Desk(canary=CANARY)
    lost = TransportError(Failure.BROKEN, "the line is cut")

    assert desk.look_up(CRIME, lost, limit_404(), found(CANARY), found(CRIME)).requests == 4


def test_all_who_share_the_key_are_told_of_a_limit_that_only_the_probe_has_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[MediaOpsError] = []
    reported = Client.report_limit

    def report_limit(self: Client, error: MediaOpsError, permit: Any = None) -> CallFlow[None]:
        told.append(error)
        return reported(self, error, permit)

    monkeypatch.setattr(Client, "report_limit", report_limit)

    with pytest.raises(RateLimitedError):
        replay(Finder(client(), CANARY).find(CRIME), [limit_404(), limit_404()])

    assert [type(error) for error in told].count(RateLimitedError) == 1


def waited_for(record: dict[str, Any]) -> dict[str, Any]:
    """Look for a book that is there; return what is kept of its record."""
    verdict = replay(BookWatch(CRIME).look(client().ask), [replied({"book": record})])
    assert isinstance(verdict, Done)
    kept: dict[str, Any] = verdict.value
    return kept


def test_nul_is_left_out_because_databases_refuse_it() -> None:
    record = {"title": "a\0b", "n\0": [{"deep": "\0"}, 1, None]}

    assert waited_for(record) == {"title": "ab", "n": [{"deep": ""}, 1, None]}


def test_the_largest_fields_of_a_large_record_are_left_out() -> None:
    record: dict[str, Any] = {"isbn13": CRIME, "synopsis": "s" * 20_000, "prices": [1] * 20_000, "title": "t" * 9_000}

    kept = waited_for(record)

    assert kept == {name: record[name] for name in ("isbn13", "synopsis", "title")}
    assert len(json.dumps(kept)) <= 32 * 1024
