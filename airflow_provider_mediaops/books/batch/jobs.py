"""What the scheduler asks the service for, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.books.models import Book
    from airflow_provider_mediaops.exceptions import MediaOpsError


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One thing to ask the service for: one book, many in one request, or a probe."""

    kind: Literal["one", "many", "probe"]
    isbns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobResult:
    """
    The result of a job.

    ``number`` is that of the request that was answered, as :meth:`LookupScheduler.sent` returned it. Of the books that
    a bulk reply does not name, those in ``alone`` are each asked for by themselves, because it also holds what may be
    about them. Those in ``unasked`` were not asked for after all, and are next. ``no_bulk`` says that the service has
    no bulk requests, ``limited`` that a request was repeated because the key was at its limit.
    """

    number: int = 0
    found: Mapping[str, Book] = field(default_factory=dict)
    missing: Mapping[str, MediaOpsError] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    alone: Sequence[str] = ()
    failed: Mapping[str, MediaOpsError] = field(default_factory=dict)
    unasked: Sequence[str] = ()
    no_bulk: bool = False
    limited: bool = False

    def asks_for_pause(self, longer_than_seconds: float) -> MediaOpsError | None:
        """Return the error of a reply that asks for a long pause (``Retry-After``)."""
        # Without a status it is not a reply: this package itself names the time at which there is room for a request.
        replies = (error for error in self.failed.values() if error.temporary and error.status is not None)
        return next((error for error in replies if (error.retry_after or 0.0) > longer_than_seconds), None)
