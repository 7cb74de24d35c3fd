"""One attempt at an enrichment, in a worker or in a triggerer: reads the rows, and commits the results."""

from __future__ import annotations

import errno
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any, get_args

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.books.batch.options import BatchOptions, RequestBudget
from airflow_provider_mediaops.books.batch.rows import rows_of_source, rows_of_values
from airflow_provider_mediaops.books.lookup import read_key_usage
from airflow_provider_mediaops.books.models import Status
from airflow_provider_mediaops.enrichment.arguments import allowed_rows
from airflow_provider_mediaops.enrichment.dataset_rows import enriched_view, resume_point, row_of
from airflow_provider_mediaops.enrichment.reuse import EarlierIndex, earlier_dataset
from airflow_provider_mediaops.exceptions import DestinationInUseError, MediaOpsError
from airflow_provider_mediaops.progress import ProgressLog, counted, duration, rate_in_words
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.ownership import DatasetWork
from airflow_provider_mediaops.storage.source_file import ReadOptions
from airflow_provider_mediaops.storage.source_list import find_files, read_list, version_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.api import KeyUsage
    from airflow_provider_mediaops.books.batch.rows import IsbnRow, Several
    from airflow_provider_mediaops.books.batch.runner import BatchUpdate
    from airflow_provider_mediaops.books.models import Lookup
    from airflow_provider_mediaops.enrichment.arguments import RowBound
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.storage.dataset import Staging
    from airflow_provider_mediaops.storage.formats import CsvFormulas
    from airflow_provider_mediaops.storage.source_columns import ColumnType, Keep
    from airflow_provider_mediaops.storage.source_file import SourceFile

STATUSES: tuple[Status, ...] = get_args(Status)
_OF_REUSE = ("reused", "stale", "refresh_failed")
# The quota is asked for if at least so many rows are left. A mapped task of few rows would spend half of it on that.
_MIN_ROWS_FOR_USAGE = 100
# Most rows of a list need no request if an earlier dataset has them. The fewer are read at a time, the more often the
# event loop waits for the thread that reads.
_ROWS_AHEAD = 1_000


@dataclass(frozen=True, slots=True)
class Enrichment(DatasetWork):
    """
    The description of an enrichment, in plain values that may travel from a task to a triggerer.

    The operator's arguments describe the fields that have their names.
    """

    total: int = 0  # the number of rows of the list
    source: Sequence[str] | None = None
    version: str | None = None  # that of the source when the task began
    # The columns that the table gets from the source, with their types.
    columns: Mapping[str, ColumnType] = field(default_factory=dict)
    reuse: Sequence[str] = ()
    format: str | None = None
    # What :data:`enrichment.arguments.OPTIONS` reads.
    isbn_column: Sequence[str] | None = None
    delimiter: str | None = None
    encoding: str | None = None
    keep_columns: Keep = False
    csv_formulas: CsvFormulas = "keep"
    bulk: bool = False
    several: Several = "first"
    repair_zeros: bool = False
    on_invalid: str = "record"
    max_invalid: RowBound | None = None
    max_failures: RowBound = 0
    reuse_for: float = 0.0
    reuse_not_found_for: float = 0.0
    max_requests: int | None = None

    def dataset(self) -> Dataset:
        """Return the dataset that is written."""
        view = enriched_view(self.columns, numbered=self.several == "rows")
        return Dataset(self.destination, view=view, format=self.format, csv_formulas=self.csv_formulas)

    def earlier(self) -> list[SourceFile]:
        """Find the datasets that are reused."""
        return [earlier_dataset(path, self.destination, self.format) for path in self.reuse]

    @property
    def named(self) -> str:
        """The paths of the list in one text; empty if it is in no file."""
        return ", ".join(self.source or ())

    def files(self) -> list[SourceFile]:
        """Find the files of the list; there are none if it is in no file."""
        options = ReadOptions(self.isbn_column, self.delimiter, self.encoding, self.keep_columns)
        return find_files(self.source or (), options)

    def rows(self, files: Sequence[SourceFile], isbns: Iterable[Any] | None) -> Iterator[IsbnRow]:
        """Read the rows of the list, which is in files or in memory."""
        if files:
            return rows_of_source(read_list(files), self.several, repair_zeros=self.repair_zeros)
        return rows_of_values(isbns or (), self.several, repair_zeros=self.repair_zeros)


class EnrichmentAttempt:
    """
    One attempt at an enrichment, which resumes from where the last one stopped. Every method may block.

    Raise OSError if the source or an earlier dataset cannot be read, or the source has changed since the task began,
    InvalidArgumentError if a file is not a dataset of an enrichment.
    """

    def __init__(
        self,
        enrichment: Enrichment,
        staging: Staging,
        log: Callable[[str], None],
        warn: Callable[[str], None] = lambda _: None,
        *,
        isbns: Sequence[Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if enrichment.version and version_of(enrichment.files()) != enrichment.version:
            what = f"source {enrichment.named} has changed since the task began; its next attempt starts anew"
            raise OSError(errno.ESTALE, what)
        self._enrichment, self._staging, self._isbns = enrichment, staging, isbns
        self._log, self._warn = log, warn
        #: Whether one request asks for many books.
        self.bulk = enrichment.bulk
        self._resumed = staging.resumed
        state = staging.state or {}
        #: The state from which the batch goes on.
        self.resume = resume_point(staging.records(), state)
        if staging.resumed:
            log(f"Resuming after {staging.rows:,} of {counted(enrichment.total, 'row')}.")
        limit, self._spent = enrichment.max_requests, state.get("spent", 0)
        self._budget = RequestBudget(inf if limit is None else limit, self._spent)
        self._earlier: EarlierIndex | None = None
        if enrichment.reuse and staging.rows < enrichment.total:
            self._earlier = EarlierIndex(time.time(), enrichment.reuse_for, enrichment.reuse_not_found_for)
            try:
                self._read_earlier(self._earlier)
            except BaseException:
                # Nobody has this attempt yet, to close it: SQLite would hold the index, and its files, for ever.
                self._earlier.close()
                raise
        self._progress = ProgressLog(log, clock, warn)
        # The number of rows by status, and of those that were ``reused``, ``stale`` and ``refresh_failed``.
        self._figures = dict.fromkeys((*STATUSES, *_OF_REUSE), 0) | state.get("figures", {})
        self._rate = "its rate"
        self._requests_before: int = state.get("requests", 0)
        # The rows of the next commit.
        self._rows: list[dict[str, Any]] = []
        self._changed = False
        self._last: BatchUpdate | None = None
        # What earlier attempts were told out of order stays saved until the turn of its row comes.
        self._ahead: dict[str, Mapping[str, Any]] = {row["isbn13"]: row for row in state.get("ahead", ())}
        # The rows that are read and not done.
        self._read: deque[IsbnRow] = deque()

    def _read_earlier(self, earlier: EarlierIndex) -> None:
        earlier.read(self._enrichment.earlier(), self._log, self._warn)
        if self._enrichment.max_requests is not None:
            isbns = (row.isbn13 for row in self._rows_left() if row.isbn13)
            new, stale = earlier.postpone_beyond(isbns, self._budget.left)
            self._log(
                f"In no earlier dataset: {counted(new, 'ISBN')}. Looked up too long ago: {stale:,}. "
                f"max_requests leaves {counted(int(self._budget.left), 'request')} for them."
            )

    def start(self, client: Client, plan: str) -> CallFlow[None]:
        """
        Log what is enriched, at which rate, and how much of the day's quota is left.

        To ask for the quota takes a request, so that is left out for fewer than 100 rows, and with ``max_requests``.
        """
        left = self._enrichment.total - self._staging.rows
        usage: KeyUsage | None = None
        if left >= _MIN_ROWS_FOR_USAGE and self._enrichment.max_requests is None:
            # The look-ups meet the same error, and handle it.
            with suppress(MediaOpsError):
                usage = yield from read_key_usage(client.probing().ask)
        self._rate = f"plan {plan}"
        if client.limiter:
            self._rate += f", {rate_in_words(client.limiter.per_second)}"
        quota = f"; {usage.left:,} of {usage.total:,} requests of today are left" if usage else ""
        source, destination = self._enrichment.named or "a list", self._enrichment.destination
        self._log(f"Enriching {counted(left, 'row')} of {source} into {destination}: {self._rate}{quota}.")

    def options(self) -> BatchOptions:
        """Return how the list is looked up."""
        # Those that failed in earlier attempts are in the dataset.
        allowed = allowed_rows(self._enrichment.max_failures, self._enrichment.total)
        left = allowed - self._figures["failed"] - self._figures["refresh_failed"]
        find = self._earlier.find if self._earlier else None
        return BatchOptions(ahead=_ROWS_AHEAD, max_failures=left, earlier=find, budget=self._budget)

    def rows(self) -> Iterator[IsbnRow]:
        """Return the rows that are left."""
        for row in self._rows_left():
            self._read.append(row)
            yield row

    def _rows_left(self) -> Iterator[IsbnRow]:
        rows = self._enrichment.rows(self._enrichment.files(), self._isbns)
        return islice(rows, self._staging.rows, None)

    def save(self, update: BatchUpdate) -> None:
        """Commit the progress of the batch, and log it every 30 seconds."""
        is_numbered = self._enrichment.several == "rows"
        for lookup in update.done:
            self._rows.append(row_of(lookup, self._read.popleft(), numbered=is_numbered))
            self._count(lookup)
        for status, rows in Counter(lookup.status for lookup in update.done).items():
            metrics.count(f"books.rows.{status}", rows)
        if update.limited and not (self._last and self._last.limited):
            self._warn_of_limit()
        self._last = update
        self._changed = self._changed or update.changed
        self._commit_news()
        self._progress.log_if_due(self._line, update.trouble)

    def _count(self, lookup: Lookup) -> None:
        self._ahead.pop(str(lookup.isbn13), None)
        self._progress.count()
        failed = lookup.reused and lookup.cause is not None
        if failed and not self._figures["refresh_failed"]:
            self._warn(
                "Rows that are too old stay as they are in an earlier dataset if the new look-up fails. They count as "
                f"stale, and against max_failures. The first error, about {lookup.isbn13}: {lookup.cause}"
            )
        self._figures[lookup.status] += 1
        self._figures["reused"] += lookup.reused
        self._figures["stale"] += self._earlier is not None and self._earlier.is_stale(lookup)
        self._figures["refresh_failed"] += failed

    def _line(self) -> str:
        """Return a line with the rows by status, the rows a second, and the time that is left."""
        figures, rate = self._figures, self._progress.per_second
        rows, total = sum(figures[status] for status in STATUSES), self._enrichment.total
        shown = [name for name in STATUSES if figures[name] or name not in ("missing", "not_asked")]
        parts = ", ".join(f"{figures[name]:,} {name.replace('_', ' ')}" for name in shown)
        if figures["reused"]:
            failed = figures["refresh_failed"]
            why = f", {failed:,} because the service gave no new answer" if failed else ""
            parts += f" ({figures['reused']:,} reused, {figures['stale']:,} of them too old{why})"
        left = f", {duration((total - rows) / rate)} left" if rows < total and rate else ""
        return f"{rows:,} of {counted(total, 'row')}: {parts}; {rate:.1f} a second{left}."

    def _warn_of_limit(self) -> None:
        self._warn(
            "The book database refuses requests because the key is at its limit. What is refused is sent again. "
            f"Probably the connection's rate ({self._rate}) is higher than that of the key: set plan to the key's own. "
            "Or another program uses the key: only tasks with one rate_limit_store share its rate."
        )

    def abort(self) -> None:
        """Commit the rest because the attempt ends with an error, and log how much is saved."""
        # Perhaps nothing can be written, or another task writes the destination.
        with suppress(OSError, DestinationInUseError):
            self._commit_news()
        self._close()
        self._log(f"Saved {self._staging.rows:,} of {counted(self._enrichment.total, 'row')} for the next attempt.")

    def finish(self) -> None:
        """Commit the rest, and set the return value of the task."""
        self._commit_news()
        self._close()
        self._staging.summary = {
            **self._figures,
            "requests": self._requests,
            "rows_per_second": round(self._progress.per_second, 1),
            "resumed": self._resumed,
        }

    def end_line(self) -> str:
        """Return the last line of the log, once the dataset is published."""
        return f"{self._line()} Written to {self._enrichment.destination}."

    @property
    def _requests(self) -> int:
        """The number of requests of all attempts."""
        return self._requests_before + (self._last.requests if self._last else 0)

    def _close(self) -> None:
        if self._earlier:
            self._earlier.close()

    def _commit_news(self) -> None:
        """Commit what has come since the last commit, if anything has; the requests of a bound count."""
        spent = self._budget.spent
        if not self._changed and (spent == self._spent or self._enrichment.max_requests is None):
            return
        self._staging.commit(self._rows, self._state(spent))
        self._spent = spent
        self._rows = []
        self._changed = False

    def _state(self, spent: int) -> dict[str, Any]:
        """Return what the next attempt would have to ask for again, and the figures, as plain values."""
        last = self._last
        # Rows that were not asked for are done again.
        told = [lookup for lookup in (last.out_of_order if last else ()) if lookup.status in ("found", "not_found")]
        return {
            "figures": dict(self._figures),
            "requests": self._requests,
            "spent": spent,
            "ahead": [*self._ahead.values(), *map(row_of, told)],
            "doubts": last.doubts if last else self.resume.doubts,
        }
