"""A walk that asks for many books at a time: how batches are filled, and what becomes of each reply."""

from __future__ import annotations

from airflow_provider_mediaops.books.models import Book
from tests.unit.books.batch.trip import CANARY, DOWN, ISBNS, A, B, C, D, Trip


class TestBulk:
    def test_a_batch_is_filled_before_it_is_asked_for(self) -> None:
        trip = Trip(bulk_size=3)
        trip.read(ISBNS[:2], end=False)
        assert trip.start() is None
        trip.read(ISBNS[2:4], end=False)
        assert trip.start() is not None
        assert trip.start() is None
        trip.scheduler.end()

        assert trip.start() is not None
        assert trip.jobs == [tuple(ISBNS[:3]), (ISBNS[3],)]

    def test_a_full_window_does_not_wait_for_a_full_batch(self) -> None:
        trip = Trip(bulk_size=10, window=4)
        trip.read(ISBNS[:4], end=False)

        assert trip.start() is not None

    def test_few_batches_are_under_way_at_a_time(self) -> None:
        assert len(Trip(ISBNS[:50], bulk_size=5).start_all()) == 2

    def test_what_the_reply_leaves_out_is_not_found_and_says_why(self) -> None:
        trip = Trip([A, B], bulk_size=2)
        trip.answer(trip.start(), found={A: Book({})}, left_out=[B])

        found, left_out = trip.scheduler.take()
        assert (found.status, found.error) == ("found", None)
        assert left_out.status == "not_found"
        assert left_out.error is not None
        assert "left it out" in left_out.error

    def test_what_the_reply_leaves_out_is_asked_for_by_itself_if_wanted(self) -> None:
        trip = Trip([A, B], bulk_size=2, bulk_verify=True)
        trip.answer(trip.start(), found={A: Book({})}, left_out=[B])
        trip.find(trip.start())

        assert trip.jobs == [(A, B), (B,)]
        assert trip.take() == [(A, "found"), (B, "found")]

    def test_a_reply_without_any_book_is_checked_like_a_run_of_missing_ones(self) -> None:
        trip = Trip([A, B], bulk_size=2)
        trip.answer(trip.start(), left_out=[A, B])
        assert trip.take() == []
        trip.find(trip.start())

        assert trip.jobs == [(A, B), (CANARY,)]
        assert trip.take() == [(A, "not_found"), (B, "not_found")]

    def test_a_batch_that_failed_is_asked_for_again_as_one(self) -> None:
        trip = Trip([A, B, C], bulk_size=3, retry_after=(10.0,))
        trip.answer(trip.start(), found={A: Book({})}, failed={B: DOWN, C: DOWN})
        trip.now = 10.0
        trip.find(trip.start())

        assert trip.jobs == [(A, B, C), (B, C)]
        assert trip.take() == [(A, "found"), (B, "found"), (C, "found")]

    def test_what_was_not_asked_for_in_the_end_is_asked_for_next(self) -> None:
        trip = Trip([A, B, C, D], bulk_size=3)
        trip.answer(trip.start(), found={A: Book({})}, unasked=[B, C])

        job = trip.start()
        assert job is not None
        assert job.isbns == (B, C, D)

    def test_where_there_is_no_bulk_books_are_asked_for_one_by_one(self) -> None:
        trip = Trip([A, B, C, D], bulk_size=3)
        trip.answer(trip.start(), found={A: Book({})}, unasked=[B, C], no_bulk=True)
        for job in trip.start_all():
            trip.find(job)

        assert trip.jobs == [(A, B, C), (B,), (C,), (D,)]
        assert trip.scheduler.is_over

    def test_batches_become_smaller_when_the_service_says_so(self) -> None:
        trip = Trip(ISBNS[:10], bulk_size=5)
        trip.scheduler.resize(3)
        trip.scheduler.resize(9)

        job = trip.start()
        assert job is not None
        assert len(job.isbns) == 3
