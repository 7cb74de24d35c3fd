"""The budget of a list: no request beyond it, whatever the service does; and what earlier datasets save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.books.batch.options import EarlierLookup, RequestBudget
from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.books.batch.runner import BatchUpdate
from airflow_provider_mediaops.books.models import Book, Lookup
from tests.unit.book_database import found, limit_404, replied
from tests.unit.books.batch.scripted import ISBNS as FEW
from tests.unit.books.batch.scripted import OUTCOMES, Batch
from tests.unit.books.batch.service import DOWN, ISBNS, Service, batch_of, follow, looked_up, statuses
from tests.unit.virtual_time import in_virtual_time


class Known:
    """What earlier datasets hold: by book, whether it is fresh, and whether there may be a request for it."""

    def __init__(self, books: Mapping[str, tuple[bool, bool]]) -> None:
        self.books = books

    def find(self, isbns: Sequence[str]) -> dict[str, EarlierLookup]:
        books = {isbn13: Book({"title": "before"}) for isbn13 in isbns if isbn13 in self.books}
        return {
            isbn13: EarlierLookup(Lookup(isbn13, isbn13, "found", book=book, reused=True), *self.books[isbn13])
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
        known=st.dictionaries(st.sampled_from(FEW), st.tuples(st.booleans(), st.booleans())),
        outcomes=st.lists(st.sampled_from(OUTCOMES), max_size=80),
        limit=st.integers(0, 15) | st.just(float("inf")),
        bulk_size=st.sampled_from([1, 4]),
        window=st.integers(1, 12),
    )
    def test_each_row_comes_out_once_and_in_order_and_nothing_is_sent_beyond_it(
        self,
        *,
        rows: list[str],
        known: dict[str, tuple[bool, bool]],
        outcomes: list[str],
        limit: float,
        bulk_size: int,
        window: int,
    ) -> None:
        options = {"window": window, "bulk_size": bulk_size, "earlier": Known(known), "budget": RequestBudget(limit)}
        batch = Batch(rows, ahead=5, **options)
        batch.run(outcomes)

        assert batch.held.sent <= limit
        texts, statuses = [text for text, _ in batch.taken], [status for _, status in batch.taken]
        assert "not_found" not in statuses or batch.any_found
        assert [status == "invalid" for status in statuses] == [text == "x" for text in texts]
        if batch.held.wrong:
            # The canary is not there: what is undecided stays so for the next attempt.
            assert texts == rows[: len(texts)]
            return
        assert batch.scheduler.is_over
        assert texts == rows
        assert batch.scheduler.rows.out_of_order() == []
        assert "not_asked" not in [status for text, status in batch.taken if text in known or limit == float("inf")]
        fresh = [status for text, status in batch.taken if known.get(text, (False,))[0]]
        assert set(fresh) <= {"found"}


def test_a_row_that_needs_no_request_is_not_saved_before_its_turn() -> None:
    """There may be a thousand of them behind one request, and they are saved with each commit."""
    service, updates = Service(latency={ISBNS[0]: 9.0}), list[BatchUpdate]()
    known = {ISBNS[1]: (True, True), ISBNS[2]: (False, False)}
    rows = map(IsbnRow.of, [*ISBNS[:4], "x", ISBNS[3]])

    in_virtual_time(follow(batch_of(service, rows, earlier=Known(known)), updates))

    waiting = {lookup.input for update in updates for lookup in update.out_of_order}
    assert waiting == {ISBNS[3]}
    assert [lookup.input for update in updates for lookup in update.done] == [*ISBNS[:4], "x", ISBNS[3]]


def test_a_row_that_stays_because_its_look_up_failed_is_the_same_where_the_book_is_named_again() -> None:
    service = Service(lambda isbn: DOWN if isbn == ISBNS[0] else found(isbn))
    earlier = Known({ISBNS[0]: (False, True)})

    rows = looked_up(service, [*ISBNS[:4], ISBNS[0]], window=1, retry_after=(), max_failures=1, earlier=earlier)

    assert service.asked == ISBNS[:4]
    assert [row.status for row in rows] == ["found"] * 5
    assert [row.reused for row in rows] == [True, False, False, False, True]
    # One look-up has failed.
    assert [bool(row.cause) for row in rows] == [True, False, False, False, False]


def test_an_earlier_look_up_of_a_book_says_nothing_of_those_that_a_bulk_reply_left_out_with_it() -> None:
    class Missing(Known):
        def find(self, isbns: Sequence[str]) -> dict[str, EarlierLookup]:
            gone = {
                isbn13: Lookup(isbn13, isbn13, "not_found", reused=True) for isbn13 in isbns if isbn13 in self.books
            }
            return {isbn13: EarlierLookup(lookup, *self.books[isbn13]) for isbn13, lookup in gone.items()}

    service = Service(many=lambda _: replied({"data": []}))
    earlier = Missing({ISBNS[0]: (False, True)})

    rows = statuses(service, ISBNS[:3], bulk_size=3, budget=RequestBudget(3), earlier=earlier)

    assert [status for _, status in rows] == ["not_found", "not_asked", "not_asked"]
