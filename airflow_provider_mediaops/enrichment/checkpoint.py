"""
From look-ups to the rows of a dataset, and what is saved with them so that the next attempt can go on.

With each commit goes all that the next attempt would have to ask for again: the rows that are done but wait for one
before them, and the books whose 404 is not decided on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.batch.seen import ResumePoint, SeenLookups
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.enrichment.progress import Progress
from airflow_provider_mediaops.storage.formats import FlatView, json_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_provider_mediaops.books.batch.runner import BatchUpdate

_SEPARATOR = "; "


def row_of(lookup: Lookup) -> dict[str, Any]:
    """
    Give the row of a look-up.

    :param lookup: what looking up came to.
    :returns: ``input``, ``isbn13``, ``status``, ``error`` and ``book``, the record as it came or None.
    """
    return {
        "input": lookup.input,
        "isbn13": lookup.isbn13,
        "status": lookup.status,
        "error": lookup.error,
        "book": lookup.book.record if lookup.book else None,
    }


def _flatten(row: Mapping[str, Any]) -> dict[str, object]:
    head = {name: row[name] for name in ("input", "isbn13", "status", "error")}
    if row["book"] is None:
        return head
    book = Book(row["book"])
    lists = ("authors", "subjects", "dewey_decimal", "dimensions")
    single = ("title", "title_long", "publisher", "language", "binding", "edition")
    return {
        **head,
        **{name: getattr(book, name) for name in (*single, "pages", "date_published", "msrp", "image")},
        **{name: _SEPARATOR.join(getattr(book, name)) or None for name in lists},
        "record": json_line(book.record).decode(),
    }


#: The table of enriched ISBNs: a row an input, with the record's usual fields and the whole of it as JSON.
ENRICHED = FlatView(
    columns={
        "input": str,
        "isbn13": str,
        "status": str,
        "error": str,
        "title": str,
        "title_long": str,
        "authors": str,
        "publisher": str,
        "date_published": str,
        "language": str,
        "binding": str,
        "edition": str,
        "pages": int,
        "msrp": float,
        "subjects": str,
        "dewey_decimal": str,
        "dimensions": str,
        "image": str,
        "record": str,
    },
    flatten=_flatten,
)


def resume_point(records: Iterable[Mapping[str, Any]], state: Mapping[str, Any] | None) -> ResumePoint:
    """
    Return the state from which the next attempt goes on.

    :param records: the rows that earlier attempts have committed.
    :param state: the state that was saved with the last of them, as :meth:`Ledger.state` returned it; None for a new
        beginning.
    :returns: the state.
    """
    state = state or {}
    seen, last_found = SeenLookups(), None
    for rows in (records, state.get("ahead", ())):
        for row in rows:
            if row["status"] in ("found", "not_found"):
                isbn13, book = row["isbn13"], None if row["book"] is None else Book(row["book"])
                seen.put(Lookup(isbn13, isbn13, row["status"], error=row["error"], book=book))
                last_found = isbn13 if book else last_found
    return ResumePoint(seen, state.get("undecided", {}), last_found)


class Ledger:
    """
    Keeps the books of an enrichment: what is done, what it came to, and what is to be saved.

    :param state: what was saved by the last attempt, if there was one.
    :param total: how many rows there are, where that is known.
    :param clock: seconds that never run backwards.
    """

    def __init__(
        self,
        state: Mapping[str, Any] | None = None,
        *,
        total: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        state = state or {}
        self.progress = Progress(total, state.get("counts", {}), clock)
        self._requests_before: int = state.get("requests", 0)
        self._last: BatchUpdate | None = None
        #: Those that are to be committed next.
        self.rows: list[dict[str, Any]] = []

    @property
    def requests(self) -> int:
        """How many requests were sent, in all attempts."""
        return self._requests_before + (self._last.requests if self._last else 0)

    def take_in(self, update: BatchUpdate) -> None:
        """
        Take in the progress of a batch.

        :param update: the progress since the last update.
        """
        self._last = update
        for lookup in update.done:
            self.rows.append(row_of(lookup))
            self.progress.count(lookup.status)

    def committed(self) -> None:
        """Note that the rows are committed, with the state."""
        self.rows = []

    def state(self) -> dict[str, Any]:
        """Give what is to be saved with those rows, as plain values."""
        lookups = self._last.out_of_order if self._last else []
        return {
            "counts": self.progress.counts,
            "requests": self.requests,
            # What costs no request, or failed, is done again.
            "ahead": [row_of(lookup) for lookup in lookups if lookup.status in ("found", "not_found")],
            "undecided": self._last.undecided if self._last else {},
        }

    def summary(self) -> dict[str, Any]:
        """Give the figures of the run."""
        return {**self.progress.counts, "requests": self.requests, "rows_per_second": round(self.progress.rate, 1)}
