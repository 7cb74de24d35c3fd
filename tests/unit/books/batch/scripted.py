"""A list whose jobs end as a script says, without a service and in made-up time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.batch.options import BatchOptions, RequestsSpentError
from airflow_provider_mediaops.books.batch.requests import JobResult
from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.books.batch.scheduler import IN_FLIGHT, LookupScheduler
from airflow_provider_mediaops.books.batch.seen import SeenLookups
from airflow_provider_mediaops.books.held_not_found import Evidence, HeldNotFounds
from airflow_provider_mediaops.books.models import Book
from airflow_provider_mediaops.exceptions import BadRequestError, ServiceUnavailableError
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from tests.unit.books.held import CANARY, WORDS

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.batch.requests import Job

ISBNS = sample_isbns(12)
MISSING = {words: WORDS[words] for words in ("clear", "limit", "foreign")}
FAILED = {"down": ServiceUnavailableError("503."), "refused": BadRequestError("400.")}
OUTCOMES = ("found", "stuck", "too much", "taken in part", *MISSING, *FAILED)


class Batch:
    """A scheduler, and somebody who does its jobs in made-up time."""

    def __init__(self, rows: list[str], **options: Any) -> None:
        self.now = 0.0
        self.held = HeldNotFounds(Evidence(CANARY))
        options = {"max_failures": 99, "retry_after": (10.0,), **options}
        self.scheduler = LookupScheduler(self.held, BatchOptions(**options), SeenLookups())
        self.left = list(rows)
        self.under_way: list[Job] = []
        self.taken: list[tuple[str, str]] = []
        self.any_found = False

    def run(self, outcomes: list[str]) -> None:
        """End the jobs as a script says, and the rest with the books that they ask for."""
        script = [*outcomes, *["found"] * 500]
        for turn in range(5_000):
            if self.scheduler.is_over or self.held.wrong:
                return
            if self.step(script[0], turn):
                script.pop(0)
        raise AssertionError("The list does not end.")

    def step(self, outcome: str, turn: int) -> bool:
        """Read rows, start jobs, and end one of them; say whether the outcome was used."""
        if room := self.scheduler.room:
            self.scheduler.add(list(map(IsbnRow.of, self.left[:room])), self.now)
            if len(self.left) < room:
                self.scheduler.end()
            del self.left[:room]
        while job := self.scheduler.next_job(self.now):
            # A process holds one reserved slot of the key's rate at a time.
            assert self.scheduler.next_job(self.now) is None
            try:
                self.scheduler.sent(job, len(job.isbns))
            except RequestsSpentError as error:
                spent = JobResult(failed={job.isbns[0]: error}) if job.kind == "probe" else JobResult(unasked=job.isbns)
                self.scheduler.ended(job, spent, self.now)
            else:
                self.under_way.append(job)
        assert len(self.under_way) <= IN_FLIGHT
        used = bool(self.under_way)
        if used and outcome != "stuck":
            job = self.under_way.pop(turn % len(self.under_way))
            self.scheduler.ended(job, self.result(job, outcome), self.now)
        self.taken += [(lookup.input, lookup.status) for lookup in self.scheduler.rows.hand_out()]
        self.now += 0.5
        return used

    def result(self, job: Job, outcome: str) -> JobResult:
        result = self.of_many(job.isbns, outcome) if len(job.isbns) > 1 else self.of_one(job.isbns[0], outcome)
        return replace(result, number=self.held.sent)

    def of_one(self, isbn13: str, outcome: str) -> JobResult:
        if outcome in FAILED:
            return JobResult(failed={isbn13: FAILED[outcome]})
        if outcome in MISSING:
            return JobResult(missing={isbn13: MISSING[outcome]})
        self.any_found = True
        return JobResult(found={isbn13: Book({"isbn13": isbn13})})

    def of_many(self, isbns: tuple[str, ...], outcome: str) -> JobResult:
        several = {
            "too much": JobResult(is_too_much=True, takes=len(isbns) // 2),
            "taken in part": JobResult(unasked=isbns, takes=len(isbns) - 1),
            **{name: JobResult(failed=dict.fromkeys(isbns, error)) for name, error in FAILED.items()},
            "limit": JobResult(left_out=isbns),
            "foreign": JobResult(left_out=isbns),
        }
        if outcome in several:
            return several[outcome]
        self.any_found = True
        there = isbns[:1] if outcome == "clear" else isbns
        return JobResult(found={isbn: Book({"isbn13": isbn}) for isbn in there}, left_out=isbns[len(there) :])
