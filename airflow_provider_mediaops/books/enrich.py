"""From look-ups to the rows of a dataset, and to the line that tells how far a run is."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.storage.formats import FlatView, json_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_PROGRESS_EVERY = 30.0
_SEPARATOR = "; "


def enrich(lookups: Iterable[Lookup]) -> Iterator[dict[str, Any]]:
    """
    Give a row a look-up, in order.

    :param lookups: what looking up came to.
    :returns: rows of ``input``, ``isbn13``, ``status``, ``error`` and ``book``, the record as it came or None.
    """
    for lookup in lookups:
        yield {
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


@dataclass(slots=True)
class Progress:
    """
    How far an enrichment is.

    :param total: how many ISBNs there are, where that is known.
    :param clock: seconds that never run backwards.
    """

    total: int | None = None
    clock: Callable[[], float] = time.monotonic
    requests: int = field(default=0, init=False)
    _counts: dict[str, int] = field(init=False)
    _started: float = field(init=False)
    _told: float = field(init=False)

    def __post_init__(self) -> None:
        self._counts = {"found": 0, "not_found": 0, "invalid": 0, "failed": 0}
        self._started = self._told = self.clock()

    @property
    def counts(self) -> dict[str, int]:
        """How many look-ups ended with each status, and all of them as ``rows``."""
        return {"rows": sum(self._counts.values()), **self._counts}

    def following(self, lookups: Iterable[Lookup], tell: Callable[[str], None]) -> Iterator[Lookup]:
        """
        Count look-ups as they pass, and tell of them every 30 seconds.

        :param lookups: what looking up comes to.
        :param tell: takes a line for people.
        :returns: the same look-ups.
        """
        for lookup in lookups:
            self._counts[lookup.status] += 1
            self.requests += lookup.requests
            yield lookup
            if self.clock() - self._told >= _PROGRESS_EVERY:
                self._told = self.clock()
                tell(self.line())

    def line(self) -> str:
        """Say in one line how far it is, how fast, and how long it will take."""
        rows = sum(self._counts.values())
        rate = rows / max(self.clock() - self._started, 0.001)
        done = f"{rows:,}" if self.total is None else f"{rows:,} of {self.total:,}"
        parts = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in self._counts.items())
        to_do = 0 if self.total is None else self.total - rows
        left = f", {_duration(to_do / rate)} left" if to_do and rate else ""
        return f"{done} ISBNs: {parts}; {rate:.1f} a second{left}."


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{rest} s"
