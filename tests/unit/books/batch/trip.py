"""The scheduler of a batch, and someone who does what it asks for; with the books and the failures that they meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError
from airflow_provider_mediaops.books.batch.rows import IsbnRow
from airflow_provider_mediaops.books.batch.scheduler import BatchOptions, Job, JobResult, LookupScheduler
from airflow_provider_mediaops.books.batch.seen import ResumePoint, SeenLookups
from airflow_provider_mediaops.books.held_not_found import Evidence, HeldNotFounds
from airflow_provider_mediaops.books.models import Book
from airflow_provider_mediaops.exceptions import MediaOpsError, NotFoundError, ServiceUnavailableError
from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns

if TYPE_CHECKING:
    from collections.abc import Iterable

ISBNS = sample_isbns(200)
A, B, C, D = ISBNS[:4]
CANARY = "9780131103627"
CLEAR = NotFoundError("404: no such book.", excerpt='{"error_message": "no such book"}')
DOUBTFUL = DoubtfulNotFoundError("404: Not Found.")
DOWN = ServiceUnavailableError("503.")


class Trip:
    """A scheduler, and someone who does what it asks for."""

    def __init__(self, texts: Iterable[str] | None = None, *, seen: SeenLookups | None = None, **options: Any) -> None:
        self.now = 0.0
        resume = ResumePoint(seen or SeenLookups(), options.pop("undecided", {}))
        self.held = HeldNotFounds(Evidence(CANARY))
        self.scheduler = LookupScheduler(self.held, BatchOptions(**{"max_failures": 99, **options}), resume)
        self.rows: list[tuple[str, str]] = []
        self.jobs: list[tuple[str, ...]] = []
        if texts is not None:
            self.read(texts)

    def read(self, texts: Iterable[str], *, end: bool = True) -> None:
        self.scheduler.add(map(IsbnRow.of, texts), self.now)
        if end:
            self.scheduler.end()

    def start(self) -> Job | None:
        """Take the next job, and send its request."""
        job = self.scheduler.next_job(self.now)
        if job:
            self.jobs.append(job.isbns)
            self.scheduler.sent(job)
        return job

    def start_all(self) -> list[Job]:
        jobs = []
        while job := self.start():
            jobs.append(job)
        return jobs

    def answer(self, job: Job | None, *, number: int | None = None, **answer: Any) -> None:
        assert job is not None
        number = self.held.sent if number is None else number
        self.scheduler.ended(job, JobResult(number, **answer), self.now)

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
        return [(done.input, done.status) for done in self.scheduler.take()]
