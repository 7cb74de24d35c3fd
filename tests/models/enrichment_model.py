"""The model of an enrichment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from airflow_provider_mediaops.books.api import BOOK_RULES
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from tests.models.attempts import current_attempt, take_turn
from tests.models.dataset_machine import RUNS, STEPS, DatasetMachine, DatasetTask
from tests.models.deferral import Triggerer
from tests.models.places import DiskPlace, StorePlace
from tests.unit.book_database import LIMIT_429, book, limit_404, no_such_book, replied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.http.exchange import Request, Response
    from tests.models.attempts import Attempt
    from tests.models.places import ModelPlace

_ISBNS = tuple(sample_isbns(6))
_TEXTS = st.lists(st.sampled_from([*_ISBNS, *_ISBNS, "no ISBN", ""]), max_size=6)
_BOOKS = st.sampled_from(_ISBNS)
_REUSE_SECONDS = 600
# A row says when its book was fetched in whole seconds.
_ROUNDING_SECONDS = 1
#: What the service may reply in place of a book.
_WRONG: dict[str, Response | None] = {
    "down": replied(b"", 503),
    "limit": replied(LIMIT_429, 429),
    "limit or no such book": limit_404(),
    "quota": replied({"message": "Daily quota exceeded"}, 403),
    "lost": None,
}


class Snapshot(NamedTuple):
    """What the database has had from a time on: the version of each book."""

    since: float
    versions: dict[str, int]


class Row(NamedTuple):
    """A row of a dataset: the text of the list, the state, the version of the book and when it was fetched."""

    text: str
    status: str
    version: int | None
    fetched: float | None
    is_reused: bool


@cache
def _parsed_task() -> EnrichIsbnsOperator:
    return EnrichIsbnsOperator(
        task_id="enrich",
        destination="{{ destination }}",
        isbns="{{ isbns }}",
        bulk="{{ bulk }}",
        reuse="{{ reuse }}",
        reuse_for=_REUSE_SECONDS,
        reuse_not_found_for=_REUSE_SECONDS,
        max_requests="{{ max_requests }}",
    )


@dataclass
class EnrichmentTask(DatasetTask):
    """
    A task, as Airflow and the model know it.

    :param since: when the first attempt began whose rows its dataset may have; None before.
    :param requests: how many requests its attempts have sent since.
    :param is_alone: whether its attempts have come one after the other since, and none of the other run between them,
        which removes what they have saved.
    :param losses: how many of its attempts died, or failed to write, since: what they had under way is sent again.
    """

    since: float | None = None
    requests: int = 0
    is_alone: bool = True
    losses: int = 0


class EnrichmentMachine(DatasetMachine):
    """
    Two runs enrich the same list into one destination, which they may reuse, in workers or in triggerers.

    - Whatever appears there is a whole dataset of the run that writes it: a row for each text of the list, in its
      order. A book that is ``found`` is as the service had it while that run looked the list up; one that is
      ``not_found`` was not there at some time of it. An empty text is ``missing``, another one that is no ISBN
      ``invalid``. No row has failed. Rows are ``not_asked`` only if the requests are bounded.
    - A row that is reused is one of an earlier dataset, and young enough.
    - An attempt that succeeds returns the figures of such a dataset.
    - An attempt that nobody disturbs succeeds.
    - The attempts of a run, one after the other, send no more requests than ``max_requests`` together, unless one of
      them dies: then what it had under way is sent again.
    - In the end the destination and the hidden folder beside it are left, and nothing else.

    The list of a deferred task is a file beside the destination, so that a task is disturbed by another one that is
    deferred, too.
    """

    name = "d.jsonl"
    tasks: dict[str, EnrichmentTask]
    published: list[tuple[Attempt, list[Row]]]

    @initialize(
        place=st.sampled_from([DiskPlace, StorePlace]),
        texts=_TEXTS,
        books=st.sets(_BOOKS),
        reuses=st.booleans(),
        max_requests=st.sampled_from([None, None, 3, 8]),
        is_bulk=st.booleans(),
        is_deferred=st.booleans(),
        run=st.sampled_from(RUNS),
        steps=STEPS,
    )
    def begin(
        self,
        *,
        place: type[ModelPlace],
        texts: list[str],
        books: set[str],
        reuses: bool,
        max_requests: int | None,
        is_bulk: bool,
        is_deferred: bool,
        run: str,
        steps: int,
    ) -> None:
        self.place = (self.only or place)(self.clock)
        self.place.on_file = self.on_file
        self.texts, self.reuses, self.is_bulk = texts, reuses, is_bulk
        self.max_requests, self.has_budget = max_requests, max_requests is not None
        self.books = dict.fromkeys(books, 0)
        self.snapshots = [Snapshot(0.0, dict(self.books))]
        self.faults: list[str] = []
        self.tasks = {run: EnrichmentTask(run) for run in RUNS}
        self.client = Client(("https://books.example",), BOOK_RULES, retry=RetryPolicy(max_attempts=2))
        self.published = []
        self.start_first(run, steps, is_deferred=is_deferred)

    def on_start(self, attempt: Attempt) -> None:
        task = self.tasks[attempt.task]
        if task.since is None:
            task.since = self.clock.now
        for other in self.tasks.values():
            other.is_alone &= other is task and len(self.running) == 1
        if self.faults or self.max_requests is not None:
            # What has to be asked for may be more than the requests that are left.
            self.disturbed.add(attempt)
        others = {run: deferral for run, deferral in self.deferrals.items() if run != attempt.task}
        for deferral in others.values():
            deferral.is_disturbed = True
        if others or (isinstance(attempt, Triggerer) and attempt.deferral.is_disturbed):
            self.disturbed.add(attempt)

    def operator(self) -> EnrichIsbnsOperator:
        destination = f"{self.place.folder}/{self.name}"
        return self.in_form(
            _parsed_task(),
            destination=destination,
            isbns=self.texts,
            bulk=self.is_bulk,
            reuse=destination if self.reuses else None,
            max_requests=self.max_requests,
        )

    @rule(isbn=_BOOKS)
    def change_a_book(self, isbn: str) -> None:
        self.books[isbn] = len(self.snapshots)
        self.snapshots.append(Snapshot(self.clock.now, dict(self.books)))

    @rule(isbn=_BOOKS)
    def remove_a_book(self, isbn: str) -> None:
        self.books.pop(isbn, None)
        # If it was the last one found, it is asked for as a probe for four minutes, and the next attempt goes on.
        self.disturbed |= set(self.running)
        self.snapshots.append(Snapshot(self.clock.now, dict(self.books)))

    @rule(wrong=st.sampled_from(sorted(_WRONG)), times=st.integers(1, 5))
    def break_the_service(self, wrong: str, times: int) -> None:
        self.faults = [wrong] * times
        self.disturbed |= set(self.running)

    def on_clear(self, run: str, *, had_succeeded: bool) -> None:
        super().on_clear(run, had_succeeded=had_succeeded)
        task = self.tasks[run]
        # An attempt that died while it published may have: then the cleared task begins anew.
        task.is_alone = had_succeeded and not self.running
        if had_succeeded:
            task.since, task.requests, task.losses = self.clock.now, 0, 0

    def on_fault(self, attempt: Attempt) -> None:
        super().on_fault(attempt)
        self.tasks[attempt.task].losses += 1

    def kill_now(self, attempt: Attempt) -> None:
        self.tasks[attempt.task].losses += 1
        super().kill_now(attempt)

    def send(self, request: Request) -> Response:
        step = take_turn()
        if step == "refused":
            raise TransportError(Failure.NOT_SENT, "no connection")
        task = self.tasks[current_attempt().task]
        task.requests += 1
        if task.is_alone and self.max_requests is not None and task.requests > self.max_requests * (1 + task.losses):
            self.wrong.append(f"{task.requests} requests of {self.max_requests}")
        wrong = self.faults.pop(0) if self.faults else ""
        reply = _WRONG[wrong] if wrong else self._reply(request)
        if reply is None or step:
            raise TransportError(Failure.BROKEN, "the connection broke")
        return reply

    def _reply(self, request: Request) -> Response:
        if request.body is not None:
            asked = json.loads(request.body)["isbns"]
            return replied({"data": [_record(isbn, self.books[isbn]) for isbn in asked if isbn in self.books]})
        isbn = request.path.rpartition("/")[2]
        if isbn in _ISBNS and isbn not in self.books:
            return no_such_book()
        return replied({"book": _record(isbn, self.books.get(isbn, 0))})

    def on_file(self, name: str, content: bytes) -> None:
        rows = [_row(json.loads(line)) for line in content.splitlines()]
        attempt = current_attempt()
        if fault := self._fault_of(self.tasks[attempt.task], rows):
            self.wrong.append(f"no dataset of the run: {fault}")
        self.published.append((attempt, rows))

    def _fault_of(self, task: EnrichmentTask, rows: list[Row]) -> str:
        if task.since is None:
            return "not begun"
        if [row.text for row in rows] != self.texts:
            return f"other rows: {[row.text for row in rows]}"
        return next(filter(None, (self._fault_of_row(task.since, row) for row in rows)), "")

    def _fault_of_row(self, since: float, row: Row) -> str:
        without = "" if row.text in _ISBNS else "invalid" if row.text else "missing"
        if without or row.status in ("invalid", "missing"):
            return "" if row.status == without else f"{row.text} is {row.status}"
        if row.is_reused:
            return self._fault_of_reused(since, row)
        if row.status == "not_asked" and self.has_budget:
            return ""
        had = {versions.get(row.text) for versions in self._between(since, self.clock.now)}
        if row.status in ("found", "not_found") and row.version in had:
            return ""
        return f"{row.text} is {row.status}, version {row.version}, and the service had {had}"

    def _fault_of_reused(self, since: float, row: Row) -> str:
        known = {(each.text, each.status, each.version, each.fetched) for _, rows in self.published for each in rows}
        if not self.reuses or (row.text, row.status, row.version, row.fetched) not in known:
            return f"{row.text} is in no earlier dataset"
        too_old = row.fetched is None or row.fetched < since - _REUSE_SECONDS - _ROUNDING_SECONDS
        return f"{row.text} was fetched too long ago" if too_old and not self.has_budget else ""

    def _between(self, since: float, until: float) -> list[dict[str, int]]:
        ends = [later.since for later in self.snapshots[1:]] + [float("inf")]
        return [
            each.versions
            for each, end in zip(self.snapshots, ends, strict=True)
            if end >= since and each.since <= until
        ]

    def check_summary(self, attempt: Attempt, summary: Mapping[str, Any]) -> None:
        rows = self.published_by(attempt)
        figures = {
            status: sum(row.status == status for row in rows) for status in ("found", "not_found", "missing", "invalid")
        }
        assert {name: summary[name] for name in figures} == figures, "other figures than those of the dataset"
        assert summary["rows"] == len(self.texts)
        assert summary["failed"] == 0
        fault = self._fault_of(self.tasks[attempt.task], rows)
        assert not fault or attempt in self.outdated, fault

    def mend_the_service(self) -> None:
        self.faults = []
        self.max_requests = None


def _record(isbn: str, version: int) -> dict[str, Any]:
    record: dict[str, Any] = book(isbn, edition=str(version))["book"]
    return record


def _row(values: dict[str, Any]) -> Row:
    record, fetched = values["book"], values["fetched_at"]
    return Row(
        values["input"],
        values["status"],
        None if record is None else int(record["edition"]),
        None if fetched is None else datetime.fromisoformat(fetched).timestamp(),
        values["reused"],
    )
