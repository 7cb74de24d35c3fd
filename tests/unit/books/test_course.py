"""What a walk asks for, when, and in which order its rows come out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError
from airflow_provider_mediaops.books.course import IN_FLIGHT, Answer, Course, Job, WalkOptions
from airflow_provider_mediaops.books.inputs import Input
from airflow_provider_mediaops.books.judge import Judge
from airflow_provider_mediaops.books.known import Known, Outcome
from airflow_provider_mediaops.books.models import Book
from airflow_provider_mediaops.exceptions import (
    BadRequestError,
    MediaOpsError,
    NotFoundError,
    RateLimitedError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.sandbox.isbn import sample_isbns

if TYPE_CHECKING:
    from collections.abc import Iterable

ISBNS = sample_isbns(200)
A, B, C, D = ISBNS[:4]
CANARY = "9780131103627"
CLEAR = NotFoundError("404: no such book.")
DOUBTFUL = DoubtfulNotFoundError("404: Not Found.")
DOWN = ServiceUnavailableError("503.")


class Trip:
    """A course, and someone who does what it asks for."""

    def __init__(self, texts: Iterable[str] | None = None, *, known: Known | None = None, **options: Any) -> None:
        self.now = 0.0
        undecided = options.pop("undecided", None)
        self.judge = Judge(CANARY)
        self.course = Course(self.judge, known or Known(), WalkOptions(**{"max_failures": 99, **options}), undecided)
        self.rows: list[tuple[str, str]] = []
        self.jobs: list[tuple[str, ...]] = []
        if texts is not None:
            self.read(texts)

    def read(self, texts: Iterable[str], *, end: bool = True) -> None:
        self.course.add(map(Input.of, texts), self.now)
        if end:
            self.course.end()

    def start(self) -> Job | None:
        """Take the next job, and send its request."""
        job = self.course.next_job(self.now)
        if job:
            self.jobs.append(job.isbns)
            self.course.sent(job)
        return job

    def start_all(self) -> list[Job]:
        jobs = []
        while job := self.start():
            jobs.append(job)
        return jobs

    def answer(self, job: Job | None, *, number: int | None = None, **answer: Any) -> None:
        assert job is not None
        number = self.judge.sent if number is None else number
        self.course.ended(job, Answer(number, **answer), self.now)

    def find(self, job: Job | None) -> None:
        assert job is not None
        self.answer(job, found={isbn: Book({"isbn13": isbn}) for isbn in job.isbns})

    def miss(self, job: Job | None, error: MediaOpsError = CLEAR) -> None:
        assert job is not None
        self.answer(job, missing=dict.fromkeys(job.isbns, error))

    def fail(self, job: Job | None, error: MediaOpsError = DOWN) -> None:
        assert job is not None
        self.answer(job, failed=dict.fromkeys(job.isbns, error))

    def take(self) -> list[tuple[str, str]]:
        return [(done.lookup.input, done.lookup.status) for done in self.course.take()]


class TestOrder:
    def test_rows_come_out_in_the_order_in_which_they_came_in(self) -> None:
        trip = Trip([A, "x", B, C])
        first, second, third = trip.start_all()

        trip.find(third)
        trip.find(second)
        assert trip.take() == []
        assert {done.lookup.input for done in trip.course.ahead()} == {"x", B, C}
        trip.find(first)

        assert trip.take() == [(A, "found"), ("x", "invalid"), (B, "found"), (C, "found")]
        assert trip.course.ahead() == []
        assert trip.course.is_over

    def test_a_book_that_many_rows_name_is_asked_for_once(self) -> None:
        trip = Trip([A, f"ISBN {A}", B, A])
        jobs = trip.start_all()

        assert trip.jobs == [(A,), (B,)]
        for job in jobs:
            trip.find(job)
        assert [(d.lookup.input, d.lookup.requests) for d in trip.course.take()] == [
            (A, 1),
            (f"ISBN {A}", 0),
            (B, 1),
            (A, 0),
        ]

    def test_a_book_that_was_looked_up_before_is_not_asked_for(self) -> None:
        known = Known()
        known.put(A, Outcome("found", book=Book({"title": "t"})))
        known.put(B, Outcome("not_found"))
        trip = Trip([B, A], known=known)

        assert trip.start() is None
        assert trip.take() == [(B, "not_found"), (A, "found")]

    def test_no_more_rows_are_wanted_than_the_window_holds(self) -> None:
        trip = Trip(window=5, ahead=3)
        assert trip.course.room == 3
        trip.read([A, "x", "y"], end=False)
        assert trip.course.room == 2
        job = trip.start()
        trip.read([B, C], end=False)
        assert trip.course.room == 0

        trip.find(job)
        assert trip.course.room == 0
        assert len(trip.take()) == 3

        assert trip.course.room == 1

    def test_after_the_end_of_the_list_none_are_wanted(self) -> None:
        trip = Trip([A])

        assert trip.course.room == 0
        assert not trip.course.is_over

    def test_an_empty_list_is_over_at_once(self) -> None:
        trip = Trip()
        trip.course.end()

        assert trip.course.is_over
        assert trip.take() == []


class TestConcurrency:
    def test_the_next_job_comes_when_the_request_of_this_one_is_sent(self) -> None:
        trip = Trip([A, B])
        job = trip.course.next_job(0)
        assert trip.course.next_job(0) is None

        assert job is not None
        trip.course.sent(job)

        assert trip.course.next_job(0) is not None

    def test_a_job_that_ends_without_a_request_makes_way_too(self) -> None:
        trip = Trip([A, B])
        job = trip.course.next_job(0)
        assert job is not None
        trip.course.abandoned(job)

        assert trip.course.next_job(0) is not None

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
        trip.course.stop()

        assert trip.start() is None
        assert trip.course.room == 0
        assert not trip.course.is_over
        trip.find(job)
        assert trip.course.is_over
        assert trip.take() == [(A, "found")]


class TestWhatTheServiceDoesNotTell:
    def test_it_is_asked_again_later_and_fails_in_the_end(self) -> None:
        trip = Trip([A, B], again_after=(10.0, 40.0))
        first, second = trip.start_all()
        trip.fail(first)
        trip.find(second)
        for due in (10.0, 50.0):
            assert trip.course.wakes_at() == due
            assert trip.start() is None
            assert trip.take() == []
            trip.now = due
            trip.fail(trip.start())

        [failed, found] = trip.course.take()
        assert (failed.lookup.status, failed.lookup.error, failed.lookup.requests) == ("failed", "503.", 3)
        assert failed.cause is DOWN
        assert (found.lookup.input, found.cause) == (B, None)
        assert trip.course.is_over

    def test_rows_behind_it_are_done_meanwhile(self) -> None:
        trip = Trip([A, B, C], again_after=(10.0,))
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
        trip = Trip([A], again_after=())
        trip.fail(trip.start())

        assert trip.take() == [(A, "failed")]

    def test_a_book_that_failed_is_asked_for_again_where_it_is_named_again(self) -> None:
        trip = Trip([], again_after=())
        trip.read([A], end=False)
        trip.fail(trip.start())
        trip.read([A])

        trip.find(trip.start())

        assert trip.take() == [(A, "failed"), (A, "found")]

    def test_a_service_that_fails_again_and_again_is_asked_one_thing_at_a_time(self) -> None:
        trip = Trip(ISBNS[:20], again_after=(10.0,))
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
        trip = Trip([A, B, C], again_after=(), max_failures=2)
        for job in trip.start_all():
            trip.fail(job) if job.isbns != (B,) else trip.find(job)

        assert trip.take() == [(A, "failed"), (B, "found"), (C, "failed")]
        assert trip.course.error is None

    def test_at_one_too_many_the_rows_before_it_are_the_last(self) -> None:
        trip = Trip([A, B, C, D], again_after=(), max_failures=1)
        for job in trip.start_all():
            trip.fail(job) if job.isbns in ((A,), (C,)) else trip.find(job)

        assert trip.take() == [(A, "failed"), (B, "found")]
        assert trip.course.error is DOWN
        assert trip.take() == []
        assert [done.lookup.input for done in trip.course.ahead()] == [C, D]


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
        assert trip.course.is_over

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
        trip = Trip([A, B], again_after=(10.0,))
        trip.miss(trip.start(), DOUBTFUL)
        trip.answer(trip.start(), found={B: Book({})}, limited=True)
        trip.miss(trip.start(), DOUBTFUL)
        trip.find(trip.start())

        assert trip.take() == []
        assert trip.course.wakes_at() == 10.0

    def test_while_the_key_is_in_doubt_nothing_else_is_asked_for(self) -> None:
        trip = Trip([A, B])
        trip.miss(trip.start(), DOUBTFUL)
        trip.now = 2.0
        trip.miss(trip.start(), DOUBTFUL)
        assert trip.jobs == [(A,), (CANARY,)]

        assert trip.start() is None
        assert trip.course.wakes_at() == 3.0
        trip.now = 3.0
        trip.find(trip.start())

        assert [job.isbns for job in trip.start_all()] == [(A,), (B,)]

    def test_what_cannot_be_told_apart_fails_in_the_end_and_is_never_not_found(self) -> None:
        trip = Trip([A], again_after=(10.0,))
        asked = 0
        while not trip.course.is_over:
            job = trip.start()
            if job:
                asked += 1
                trip.miss(job, DOUBTFUL)
            elif (wakes := trip.course.wakes_at()) is not None:
                trip.now = max(trip.now, wakes)
            assert asked < 100

        [done] = trip.course.take()
        assert done.lookup.status == "failed"
        assert isinstance(done.cause, RateLimitedError)
        assert "No witness was found" in str(done.cause)
        assert trip.now < 600

    def test_in_a_limit_that_goes_on_few_requests_are_spent(self) -> None:
        trip = Trip(ISBNS, again_after=(10.0, 40.0, 120.0))
        while trip.now < 600 and not trip.course.is_over:
            job = trip.start()
            if job:
                trip.miss(job, DOUBTFUL)
            else:
                trip.now += 1.0

        assert len(trip.jobs) < 120
        assert all(status != "not_found" for _, status in trip.take())

    def test_the_next_attempt_goes_on_with_what_was_not_decided(self) -> None:
        first = Trip([A, B])
        first.miss(first.start(), DOUBTFUL)
        first.miss(first.start(), CLEAR)
        trip = Trip([A, B, C], undecided=first.judge.undecided())

        trip.find(trip.start())

        # The one in clear words is believed, now that another is found; the doubtful one is asked for again.
        trip.miss(trip.start(), DOUBTFUL)
        assert trip.jobs == [(C,), (A,)]
        assert {done.lookup.input: done.lookup.status for done in trip.course.ahead()} == {B: "not_found", C: "found"}


class TestBulk:
    def test_a_batch_is_filled_before_it_is_asked_for(self) -> None:
        trip = Trip(batch=3)
        trip.read(ISBNS[:2], end=False)
        assert trip.start() is None
        trip.read(ISBNS[2:4], end=False)
        assert trip.start() is not None
        assert trip.start() is None
        trip.course.end()

        assert trip.start() is not None
        assert trip.jobs == [tuple(ISBNS[:3]), (ISBNS[3],)]

    def test_a_full_window_does_not_wait_for_a_full_batch(self) -> None:
        trip = Trip(batch=10, window=4)
        trip.read(ISBNS[:4], end=False)

        assert trip.start() is not None

    def test_few_batches_are_under_way_at_a_time(self) -> None:
        assert len(Trip(ISBNS[:50], batch=5).start_all()) == 2

    def test_what_the_reply_leaves_out_is_not_found_and_says_why(self) -> None:
        trip = Trip([A, B], batch=2)
        trip.answer(trip.start(), found={A: Book({})}, left_out=[B])

        found, left_out = (done.lookup for done in trip.course.take())
        assert (found.status, found.error) == ("found", None)
        assert left_out.status == "not_found"
        assert left_out.error is not None
        assert "left it out" in left_out.error

    def test_what_the_reply_leaves_out_is_asked_for_by_itself_if_wanted(self) -> None:
        trip = Trip([A, B], batch=2, verify=True)
        trip.answer(trip.start(), found={A: Book({})}, left_out=[B])
        trip.find(trip.start())

        assert trip.jobs == [(A, B), (B,)]
        assert trip.take() == [(A, "found"), (B, "found")]

    def test_a_reply_without_any_book_is_checked_like_a_run_of_missing_ones(self) -> None:
        trip = Trip([A, B], batch=2)
        trip.answer(trip.start(), left_out=[A, B])
        assert trip.take() == []
        trip.find(trip.start())

        assert trip.jobs == [(A, B), (CANARY,)]
        assert trip.take() == [(A, "not_found"), (B, "not_found")]

    def test_a_batch_that_failed_is_asked_for_again_as_one(self) -> None:
        trip = Trip([A, B, C], batch=3, again_after=(10.0,))
        trip.answer(trip.start(), found={A: Book({})}, failed={B: DOWN, C: DOWN})
        trip.now = 10.0
        trip.find(trip.start())

        assert trip.jobs == [(A, B, C), (B, C)]
        assert trip.take() == [(A, "found"), (B, "found"), (C, "found")]

    def test_what_was_not_asked_for_in_the_end_is_asked_for_next(self) -> None:
        trip = Trip([A, B, C, D], batch=3)
        trip.answer(trip.start(), found={A: Book({})}, unasked=[B, C])

        job = trip.start()
        assert job is not None
        assert job.isbns == (B, C, D)

    def test_where_there_is_no_bulk_books_are_asked_for_one_by_one(self) -> None:
        trip = Trip([A, B, C, D], batch=3)
        trip.answer(trip.start(), found={A: Book({})}, unasked=[B, C], no_bulk=True)
        for job in trip.start_all():
            trip.find(job)

        assert trip.jobs == [(A, B, C), (B,), (C,), (D,)]
        assert trip.course.is_over

    def test_batches_become_smaller_when_the_service_says_so(self) -> None:
        trip = Trip(ISBNS[:10], batch=5)
        trip.course.resize(3)
        trip.course.resize(9)

        job = trip.start()
        assert job is not None
        assert len(job.isbns) == 3


@pytest.mark.parametrize("missing", [CLEAR, DOUBTFUL])
def test_a_list_of_missing_books_costs_little_more_than_its_length(missing: MediaOpsError) -> None:
    """One request a book in clear words; two in doubtful ones; and a witness now and then."""
    trip = Trip(ISBNS, ahead=200)
    while not trip.course.is_over:
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


OUTCOMES = ("found", "clear", "doubtful", "down", "refused", "stuck")


@given(
    rows=st.lists(st.sampled_from([*ISBNS[:12], "x", f"ISBN {A}"]), max_size=30),
    outcomes=st.lists(st.sampled_from(OUTCOMES), max_size=80),
    batch=st.sampled_from([1, 4]),
    verify=st.booleans(),
    window=st.integers(1, 12),
)
def test_whatever_the_service_does_each_row_comes_out_once_and_in_order(
    rows: list[str], outcomes: list[str], *, batch: int, verify: bool, window: int
) -> None:
    trip = Trip(batch=batch, verify=verify, window=window, ahead=5, again_after=(10.0,))
    left, taken, under_way = list(rows), [], []
    script = [*outcomes, *["found"] * 500]
    for _ in range(5_000):
        if trip.course.is_over:
            break
        if room := trip.course.room:
            trip.read(left[:room], end=len(left) < room)
            del left[:room]
        under_way += trip.start_all()
        outcome = script.pop(0) if under_way else "nothing"
        if outcome != "stuck" and under_way:
            answer_with(trip, under_way.pop(len(outcomes) % len(under_way)), outcome)
        taken += trip.take()
        trip.now += 0.5
    taken += trip.take()

    assert trip.course.is_over
    assert [text for text, _ in taken] == rows
    assert all((status == "invalid") == (text == "x") for text, status in taken)
    assert trip.course.ahead() == []


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
