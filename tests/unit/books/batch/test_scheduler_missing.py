"""Books that a walk does not find: what it believes at once, what it checks, and what that costs."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.books.models import Book
from airflow_provider_mediaops.exceptions import MediaOpsError, RateLimitedError
from tests.unit.books.batch.trip import CANARY, CLEAR, DOUBTFUL, ISBNS, A, B, C, Trip


class TestMissingBooks:
    def test_a_run_of_them_is_checked_before_it_is_believed(self) -> None:
        trip = Trip([A, B])
        for job in trip.start_all():
            trip.miss(job)
        assert trip.take() == []

        witness = trip.start()
        assert witness is not None
        assert (witness.kind, witness.isbns) == ("witness", (CANARY,))
        trip.find(witness)

        assert trip.take() == [(A, "not_found"), (B, "not_found")]
        assert trip.scheduler.is_over

    def test_a_book_found_meanwhile_spares_the_check(self) -> None:
        trip = Trip([A, B, C])
        trip.miss(trip.start())
        trip.miss(trip.start())
        trip.find(trip.start())

        assert trip.take() == [(A, "not_found"), (B, "not_found"), (C, "found")]
        assert trip.jobs == [(A,), (B,), (C,)]

    def test_a_doubtful_one_is_asked_for_again_at_once(self) -> None:
        trip = Trip([A])
        trip.miss(trip.start(), DOUBTFUL)
        trip.find(trip.start())
        trip.find(trip.start())

        assert trip.take() == [(A, "found")]
        assert trip.jobs == [(A,), (CANARY,), (A,)]

    def test_a_limit_around_that_time_makes_the_second_404_no_proof(self) -> None:
        trip = Trip([A, B], retry_after=(10.0,))
        trip.miss(trip.start(), DOUBTFUL)
        trip.answer(trip.start(), found={B: Book({})}, limited=True)
        trip.miss(trip.start(), DOUBTFUL)
        trip.find(trip.start())

        assert trip.take() == []
        assert trip.scheduler.wakes_at() == 10.0

    def test_while_the_key_is_in_doubt_nothing_else_is_asked_for(self) -> None:
        trip = Trip([A, B])
        trip.miss(trip.start(), DOUBTFUL)
        trip.now = 2.0
        trip.miss(trip.start(), DOUBTFUL)
        assert trip.jobs == [(A,), (CANARY,)]

        assert trip.start() is None
        assert trip.scheduler.wakes_at() == 3.0
        trip.now = 3.0
        trip.find(trip.start())

        assert [job.isbns for job in trip.start_all()] == [(A,), (B,)]

    def test_what_cannot_be_told_apart_fails_in_the_end_and_is_never_not_found(self) -> None:
        trip = Trip([A], retry_after=(10.0,))
        asked = 0
        while not trip.scheduler.is_over:
            job = trip.start()
            if job:
                asked += 1
                trip.miss(job, DOUBTFUL)
            elif (wakes := trip.scheduler.wakes_at()) is not None:
                trip.now = max(trip.now, wakes)
            assert asked < 100

        [done] = trip.scheduler.take()
        assert done.status == "failed"
        assert isinstance(done.cause, RateLimitedError)
        assert "No witness was found" in str(done.cause)
        assert trip.now < 600

    def test_in_a_limit_that_goes_on_few_requests_are_spent(self) -> None:
        trip = Trip(ISBNS, retry_after=(10.0, 40.0, 120.0))
        while trip.now < 600 and not trip.scheduler.is_over:
            job = trip.start()
            if job:
                trip.miss(job, DOUBTFUL)
            else:
                trip.now += 1.0

        assert len(trip.jobs) < 120
        assert trip.take() == []
        # The limit ends: no book is missing.
        while trip.now < 1_200 and not trip.scheduler.is_over:
            job = trip.start()
            if job:
                trip.find(job)
            else:
                trip.now += 1.0
        assert [status for _, status in trip.take()].count("found") == len(ISBNS)

    def test_the_next_attempt_goes_on_with_what_was_not_decided(self) -> None:
        first = Trip([A, B])
        first.miss(first.start(), DOUBTFUL)
        first.miss(first.start(), CLEAR)
        trip = Trip([A, B, C], undecided=first.held.undecided())

        trip.find(trip.start())

        # The one in clear words is believed, now that another is found; the doubtful one is asked for again.
        trip.miss(trip.start(), DOUBTFUL)
        assert trip.jobs == [(C,), (A,)]
        assert {done.input: done.status for done in trip.scheduler.out_of_order()} == {B: "not_found", C: "found"}


@pytest.mark.parametrize("missing", [CLEAR, DOUBTFUL])
def test_a_list_of_missing_books_costs_little_more_than_its_length(missing: MediaOpsError) -> None:
    """One request a book in clear words; two in doubtful ones; and a witness now and then."""
    trip = Trip(ISBNS, ahead=200)
    while not trip.scheduler.is_over:
        job = trip.start()
        if job is None:
            trip.now += 0.2
        elif job.kind == "witness":
            trip.find(job)
        else:
            trip.miss(job, missing)
        trip.now += 0.2

    assert {status for _, status in trip.take()} == {"not_found"}
    assert len(trip.jobs) <= len(ISBNS) * (1.1 if missing is CLEAR else 2.3)
