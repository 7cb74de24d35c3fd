"""The budget of a list: no request beyond it, whatever the service does; and what earlier datasets save."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.books.batch.options import EarlierLookup, RequestBudget
from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.books.batch.runner import BatchUpdate
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.exceptions import InvalidConnectionError
from tests.unit.book_database import found, limit_404, no_such_book, replied
from tests.unit.books.batch.service import DOWN, ISBNS, Service, batch_of, follow, looked_up, statuses
from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response

FEW = ISBNS[:12]
REPLIES = {
    "down": DOWN,
    "refused": replied({}, 400),
    "clear": no_such_book(),
    "limit": limit_404(),
    "foreign": replied({"message": "no Route matched with those values"}, 404),
}


class Known:
    """What earlier datasets hold: by book, whether that stays without a request."""

    def __init__(self, books: Mapping[str, bool]) -> None:
        self.books = books

    def find(self, isbns: Sequence[str]) -> dict[str, EarlierLookup]:
        books = {isbn13: Book({"title": "before"}) for isbn13 in isbns if isbn13 in self.books}
        return {
            isbn13: EarlierLookup(Lookup(isbn13, isbn13, "found", book=book, reused=True), self.books[isbn13])
            for isbn13, book in books.items()
        }


class TestBound:
    @pytest.mark.parametrize("answer", [DOWN, limit_404(), replied({}, 429), replied({}, 400)])
    @pytest.mark.parametrize("tries", [1, 4])
    def test_repetitions_and_probes_count(self, answer: Any, tries: int) -> None:
        service = Service(lambda _: answer)

        rows = statuses(service, ISBNS[:20], tries=tries, rate=100.0, budget=RequestBudget(30))

        assert len(service.asked) <= 30
        assert [text for text, _ in rows] == ISBNS[:20]
        assert {status for _, status in rows} <= {"failed", "not_asked"}

    @pytest.mark.parametrize("limit", [0, 1, 7, 50])
    def test_each_book_of_a_bulk_request_counts_in_halves_too(self, limit: int) -> None:
        service = Service(many=lambda isbns: replied(b"", 500) if len(isbns) > 2 else replied({"data": []}))
        statuses(service, ISBNS[:20], bulk_size=8, budget=RequestBudget(limit))

        assert len(service.asked) + sum(map(len, service.batches)) <= limit

    @pytest.mark.long
    @given(
        rows=st.lists(st.sampled_from([*FEW, "x", f"ISBN {FEW[0]}"]), max_size=30),
        known=st.dictionaries(st.sampled_from(FEW), st.booleans()),
        script=st.lists(st.sampled_from(["found", "too much", "in part", *REPLIES]), max_size=80).map(iter),
        latency=st.dictionaries(st.sampled_from(FEW), st.sampled_from([0.3, 3.0, 30.0])),
        limit=st.integers(0, 15) | st.just(float("inf")),
        bulk_size=st.sampled_from([1, 4]),
        window=st.integers(1, 12),
    )
    def test_each_row_comes_out_once_and_in_order_and_nothing_is_sent_beyond_it(
        self,
        *,
        rows: list[str],
        known: dict[str, bool],
        script: Iterator[str],
        latency: dict[str, float],
        limit: float,
        bulk_size: int,
        window: int,
    ) -> None:
        handed_out: set[str] = set()

        def answer(isbn13: str) -> Response:
            reply = REPLIES.get(next(script, "found"))
            handed_out.update([] if reply else [isbn13])
            return reply or found(isbn13)

        def many(isbns: list[str]) -> Response:
            outcome = next(script, "found")
            if outcome == "too much":
                return replied({}, 500)
            if outcome in ("down", "refused"):
                return REPLIES[outcome]
            there = {"clear": isbns[:1], "limit": [], "foreign": [], "in part": isbns[:1]}.get(outcome, isbns)
            handed_out.update(there)
            return replied({"data": [{"isbn13": isbn13} for isbn13 in there], "requested": len(isbns)})

        service, updates = Service(answer, latency, many), list[BatchUpdate]()
        options: dict[str, Any] = {"window": window, "bulk_size": bulk_size, "earlier": Known(known).find}
        batch = batch_of(
            service,
            map(IsbnRow.of, rows),
            ahead=5,
            budget=RequestBudget(limit),
            retry_after=(10.0,),
            rate=50.0,
            **options,
        )
        wrong = False
        try:
            in_virtual_time(asyncio.wait_for(follow(batch, updates), 10_000))
        except InvalidConnectionError:
            # The canary is not there: what is undecided stays so for the next attempt.
            wrong = True

        assert len(service.asked) + sum(map(len, service.batches)) <= limit
        done = [lookup for update in updates for lookup in update.done]
        assert [lookup.input for lookup in done] == (rows[: len(done)] if wrong else rows)
        assert [lookup.status == "invalid" for lookup in done] == [lookup.input == "x" for lookup in done]
        assert handed_out or "not_found" not in [lookup.status for lookup in done]
        assert {lookup.status for lookup in done if known.get(lookup.input)} <= {"found"}
        unasked = {lookup.input for lookup in done if lookup.status == "not_asked"}
        assert not (unasked & known.keys() if limit < float("inf") else unasked)


def test_a_row_that_needs_no_request_is_not_saved_before_its_turn() -> None:
    """There may be a thousand of them behind one request, and they are saved with each commit."""
    service, updates = Service(latency={ISBNS[0]: 9.0}), list[BatchUpdate]()
    known = {ISBNS[1]: True, ISBNS[2]: True}
    rows = map(IsbnRow.of, [*ISBNS[:4], "x", ISBNS[3]])

    in_virtual_time(follow(batch_of(service, rows, earlier=Known(known).find), updates))

    waiting = {lookup.input for update in updates for lookup in update.out_of_order}
    assert waiting == {ISBNS[3]}
    assert [lookup.input for update in updates for lookup in update.done] == [*ISBNS[:4], "x", ISBNS[3]]


def test_a_row_that_stays_because_its_look_up_failed_is_the_same_where_the_book_is_named_again() -> None:
    service = Service(lambda isbn: DOWN if isbn == ISBNS[0] else found(isbn))
    earlier = Known({ISBNS[0]: False}).find

    rows = looked_up(service, [*ISBNS[:4], ISBNS[0]], window=1, retry_after=(), max_failures=1, earlier=earlier)

    assert service.asked == ISBNS[:4]
    assert [row.status for row in rows] == ["found"] * 5
    assert [row.reused for row in rows] == [True, False, False, False, True]
    # One look-up has failed.
    assert [bool(row.cause) for row in rows] == [True, False, False, False, False]


@pytest.mark.parametrize(
    ("requests", "others"),
    [(3, "not_asked"), (99, "found")],
    ids=["no request is left for the book", "the request for the book fails"],
)
def test_an_earlier_look_up_of_a_book_says_nothing_of_those_that_a_bulk_reply_left_out_with_it(
    requests: int, others: str
) -> None:
    class Missing(Known):
        def find(self, isbns: Sequence[str]) -> dict[str, EarlierLookup]:
            gone = {
                isbn13: Lookup(isbn13, isbn13, "not_found", reused=True) for isbn13 in isbns if isbn13 in self.books
            }
            return {isbn13: EarlierLookup(lookup, self.books[isbn13]) for isbn13, lookup in gone.items()}

    service = Service(lambda isbn: DOWN if isbn == ISBNS[0] else found(isbn), many=lambda _: replied({"data": []}))
    earlier, budget = Missing({ISBNS[0]: False}).find, RequestBudget(requests)

    rows = statuses(service, ISBNS[:3], bulk_size=3, retry_after=(), earlier=earlier, budget=budget)

    assert [status for _, status in rows] == ["not_found", others, others]
