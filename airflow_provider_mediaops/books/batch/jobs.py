"""What the scheduler asks the service for, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.models import Book
    from airflow_provider_mediaops.exceptions import MediaOpsError


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One thing to ask the service for: one book, many in one request, or a probe."""

    kind: Literal["one", "many", "probe"]
    isbns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job's request has brought; each book of the job is in one of the fields, unless all were too much."""

    number: int = 0  # of the request that was answered, as the scheduler has counted it
    found: Mapping[str, Book] = field(default_factory=dict)
    missing: Mapping[str, MediaOpsError] = field(default_factory=dict)  # with the 404
    failed: Mapping[str, MediaOpsError] = field(default_factory=dict)
    left_out: Sequence[str] = ()  # books that a bulk reply does not name
    alone: Sequence[str] = ()  # the same where the reply also holds what may be about them: each is asked for
    unasked: Sequence[str] = ()  # books that were not asked for after all
    is_too_much: bool = False  # whether the service could not give so many: each half is asked for
    takes: int | None = None  # how many books the service takes at once, if it takes fewer
    no_bulk: bool = False  # whether the service has no bulk requests
    limited: bool = False  # whether the reply to any of its requests was that the key is at its limit
