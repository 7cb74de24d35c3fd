"""What a walk asks for, when, and in which order its rows come out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.books.batch.scheduler import IN_FLIGHT, Job
from airflow_provider_mediaops.books.batch.seen import SeenLookups
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.exceptions import BadRequestError
from tests.unit.books.batch.trip import CLEAR, DOUBTFUL, DOWN, ISBNS, A, B, C, D, Trip


class TestOrder:
    def test_rows_come_out_in_the_order_in_which_they_came_in(self) -> None:
        trip = Trip([A, "x", B, C])
        first, second, third = trip.start_all()

        trip.find(third)
        trip.find(second)
        assert trip.take() == []
        assert {done.input for done in trip.scheduler.out_of_order()} == {"x", B, C}
        trip.find(first)

        assert trip.take() == [(A, "found"), ("x", "invalid"), (B, "found"), (C, "found")]
        assert trip.scheduler.out_of_order() == []
        assert trip.scheduler.is_over

    def test_a_book_that_many_rows_name_is_asked_for_once(self) -> None:
        trip = Trip([A, f"ISBN {A}", B, A])
        jobs = trip.start_all()

        assert trip.jobs == [(A,), (B,)]
        for job in jobs:
            trip.find(job)
        assert [(d.input, d.requests) for d in trip.scheduler.take()] == [
            (A, 1),
            (f"ISBN {A}", 0),
            (B, 1),
            (A, 0),
        ]

    def test_a_book_that_was_looked_up_before_is_not_asked_for(self) -> None:
        seen = SeenLookups()
        seen.put(Lookup(A, A, "found", book=Book({"title": "t"})))
        seen.put(Lookup(B, B, "not_found"))
        trip = Trip([B, A], seen=seen)

        assert trip.start() is None
        assert trip.take() == [(B, "not_found"), (A, "found")]

    def test_no_more_rows_are_wanted_than_the_window_holds(self) -> None:
        trip = Trip(window=5, ahead=3)
        assert trip.scheduler.room == 3
        trip.read([A, "x", "y"], end=False)
        assert trip.scheduler.room == 2
        job = trip.start()
        trip.read([B, C], end=False)
        assert trip.scheduler.room == 0

        trip.find(job)
        assert trip.scheduler.room == 0
        assert len(trip.take()) == 3

        assert trip.scheduler.room == 1

    def test_after_the_end_of_the_list_none_are_wanted(self) -> None:
        trip = Trip([A])

        assert trip.scheduler.room == 0
        assert not trip.scheduler.is_over

    def test_an_empty_list_is_over_at_once(self) -> None:
        trip = Trip()
        trip.scheduler.end()

        assert trip.scheduler.is_over
        assert trip.take() == []


class TestConcurrency:
    def test_the_next_job_comes_when_the_request_of_this_one_is_sent(self) -> None:
        trip = Trip([A, B])
        job = trip.scheduler.next_job(0)
        assert trip.scheduler.next_job(0) is None

        assert job is not None
        trip.scheduler.sent(job)

        assert trip.scheduler.next_job(0) is not None

    def test_a_job_that_ends_without_a_request_makes_way_too(self) -> None:
        trip = Trip([A, B])
        job = trip.scheduler.next_job(0)
        assert job is not None
        trip.scheduler.abandoned(job)

        assert trip.scheduler.next_job(0) is not None

    def test_there_is_a_bound_to_what_is_under_way(self) -> None:
        trip = Trip(ISBNS)
        jobs = trip.start_all()

        assert len(jobs) == IN_FLIGHT
        trip.find(jobs[5])
        assert trip.start() is not None
        assert trip.start() is None

    def test_a_stopped_walk_asks_for_nothing_more_and_ends_with_what_is_under_way(self) -> None:
        trip = Trip([A, B])
        job = trip.start()
        trip.scheduler.stop()

        assert trip.start() is None
        assert trip.scheduler.room == 0
        assert not trip.scheduler.is_over
        trip.find(job)
        assert trip.scheduler.is_over
        assert trip.take() == [(A, "found")]


class TestWhatTheServiceDoesNotTell:
    def test_it_is_asked_again_later_and_fails_in_the_end(self) -> None:
        trip = Trip([A, B], retry_after=(10.0, 40.0))
        first, second = trip.start_all()
        trip.fail(first)
        trip.find(second)
        for due in (10.0, 50.0):
            assert trip.scheduler.wakes_at() == due
            assert trip.start() is None
            assert trip.take() == []
            trip.now = due
            trip.fail(trip.start())

        [failed, found] = trip.scheduler.take()
        assert (failed.status, failed.error, failed.requests) == ("failed", "503.", 3)
        assert failed.cause is DOWN
        assert (found.input, found.cause) == (B, None)
        assert trip.scheduler.is_over

    def test_rows_behind_it_are_done_meanwhile(self) -> None:
        trip = Trip([A, B, C], retry_after=(10.0,))
        trip.fail(trip.start())
        for job in trip.start_all():
            trip.find(job)
        trip.now = 10.0
        trip.find(trip.start())

        assert trip.take() == [(A, "found"), (B, "found"), (C, "found")]

    def test_what_is_wrong_with_one_request_is_not_asked_again(self) -> None:
        trip = Trip([A])
        trip.fail(trip.start(), BadRequestError("400."))

        assert trip.take() == [(A, "failed")]

    def test_without_later_tries_it_fails_at_once(self) -> None:
        trip = Trip([A], retry_after=())
        trip.fail(trip.start())

        assert trip.take() == [(A, "failed")]

    def test_a_book_that_failed_is_asked_for_again_where_it_is_named_again(self) -> None:
        trip = Trip([], retry_after=())
        trip.read([A], end=False)
        trip.fail(trip.start())
        trip.read([A])

        trip.find(trip.start())

        assert trip.take() == [(A, "failed"), (A, "found")]

    def test_a_service_that_fails_again_and_again_is_asked_one_thing_at_a_time(self) -> None:
        trip = Trip(ISBNS[:20], retry_after=(10.0,))
        jobs = [trip.start() for _ in range(5)]
        for job in jobs[:3]:
            trip.fail(job)
        assert trip.start() is None
        for job in jobs[3:]:
            trip.fail(job)
        # Nothing new is begun: those that were put off find out.
        assert trip.start() is None
        trip.now = 10.0
        probe = trip.start()
        assert trip.start() is None

        trip.find(probe)

        assert len(trip.start_all()) == 19


class TestFailures:
    def test_within_bounds_they_are_rows(self) -> None:
        trip = Trip([A, B, C], retry_after=(), max_failures=2)
        for job in trip.start_all():
            trip.fail(job) if job.isbns != (B,) else trip.find(job)

        assert trip.take() == [(A, "failed"), (B, "found"), (C, "failed")]
        assert trip.scheduler.error is None

    def test_at_one_too_many_the_rows_before_it_are_the_last(self) -> None:
        trip = Trip([A, B, C, D], retry_after=(), max_failures=1)
        for job in trip.start_all():
            trip.fail(job) if job.isbns in ((A,), (C,)) else trip.find(job)

        assert trip.take() == [(A, "failed"), (B, "found")]
        assert trip.scheduler.error is DOWN
        assert trip.take() == []
        assert [done.input for done in trip.scheduler.out_of_order()] == [C, D]


OUTCOMES = ("found", "clear", "doubtful", "down", "refused", "stuck")


@given(
    rows=st.lists(st.sampled_from([*ISBNS[:12], "x", f"ISBN {A}"]), max_size=30),
    outcomes=st.lists(st.sampled_from(OUTCOMES), max_size=80),
    bulk_size=st.sampled_from([1, 4]),
    bulk_verify=st.booleans(),
    window=st.integers(1, 12),
)
def test_whatever_the_service_does_each_row_comes_out_once_and_in_order(
    rows: list[str], outcomes: list[str], *, bulk_size: int, bulk_verify: bool, window: int
) -> None:
    trip = Trip(bulk_size=bulk_size, bulk_verify=bulk_verify, window=window, ahead=5, retry_after=(10.0,))
    left, taken, under_way = list(rows), [], []
    script = [*outcomes, *["found"] * 500]
    for _ in range(5_000):
        if trip.scheduler.is_over or trip.held.wrong:
            break
        if room := trip.scheduler.room:
            trip.read(left[:room], end=len(left) < room)
            del left[:room]
        under_way += trip.start_all()
        outcome = script.pop(0) if under_way else "nothing"
        if outcome != "stuck" and under_way:
            answer_with(trip, under_way.pop(len(outcomes) % len(under_way)), outcome)
        taken += trip.take()
        trip.now += 0.5
    taken += trip.take()

    assert [text for text, _ in taken] == (rows[: len(taken)] if trip.held.wrong else rows)
    assert all((status == "invalid") == (text == "x") for text, status in taken)
    if trip.held.wrong:
        # A canary that is not there: no book was found yet, so none is missing.
        assert {status for _, status in taken} <= {"invalid", "failed"}
        return
    assert trip.scheduler.is_over
    assert trip.scheduler.out_of_order() == []


def answer_with(trip: Trip, job: Job, outcome: str) -> None:
    if outcome == "found":
        trip.find(job)
    elif outcome == "refused":
        trip.fail(job, BadRequestError("400."))
    elif outcome == "down":
        trip.fail(job)
    elif job.kind == "many":
        first, *rest = job.isbns
        trip.answer(
            job,
            found={first: Book({})} if outcome == "clear" else {},
            left_out=rest if outcome == "clear" else job.isbns,
        )
    else:
        trip.miss(job, CLEAR if outcome == "clear" else DOUBTFUL)
