"""The budget of a list: no request beyond it, whatever the service does; and what earlier datasets save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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


class TestBudget:
    def test_an_attempt_that_has_spent_more_than_a_lower_bound_has_none_left(self) -> None:
        assert (RequestBudget(5, 9).left, RequestBudget(5, 9).at_most(3)) == (0, 0)


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

    @given(
        rows=st.lists(st.sampled_from([*FEW, "x"]), max_size=25),
        known=st.dictionaries(st.sampled_from(FEW), st.tuples(st.booleans(), st.booleans())),
        outcomes=st.lists(st.sampled_from(OUTCOMES), max_size=60),
        limit=st.integers(0, 15),
    )
    def test_each_row_comes_out_once_and_in_order_and_nothing_is_sent_beyond_it(
        self, rows: list[str], known: dict[str, tuple[bool, bool]], outcomes: list[str], limit: int
    ) -> None:
        batch = Batch(rows, window=9, ahead=5, earlier=Known(known), budget=RequestBudget(limit))
        batch.run(outcomes)

        assert batch.held.sent <= limit
        if batch.held.wrong:
            return
        assert batch.scheduler.is_over
        assert [text for text, _ in batch.taken] == rows
        for text, status in batch.taken:
            if text in known:
                assert status != "not_asked"
                assert status == "found" or not known[text][0]


class TestEarlierDatasets:
    @pytest.mark.parametrize("budget", [RequestBudget(99), RequestBudget()], ids=["bounded", "unbounded"])
    def test_of_the_old_ones_only_those_are_asked_for_that_may_be(self, budget: RequestBudget) -> None:
        service = Service()
        old = {isbn: (False, number == 3) for number, isbn in enumerate(ISBNS[:6])}

        statuses(service, ISBNS[:10], earlier=Known(old), budget=budget)

        assert sorted(service.asked) == sorted([ISBNS[3], *ISBNS[6:10]])

    def test_rows_of_one_old_book_are_all_refreshed_by_one_request(self) -> None:
        service = Service()

        rows = looked_up(service, [ISBNS[0], ISBNS[1], ISBNS[0]], earlier=Known({ISBNS[0]: (False, True)}))

        assert [row.reused for row in rows] == [False, False, False]
        assert sorted(service.asked) == ISBNS[:2]


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
