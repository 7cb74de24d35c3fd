"""How a list of ISBNs is looked up: how far ahead, in what bounds, and what earlier datasets save it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from airflow_provider_mediaops.exceptions import TemporaryError

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.models import Lookup

#: The pauses in seconds after which a book that got no answer is retried.
RETRY_AFTER_SECONDS = (10.0, 40.0, 120.0)


class RequestsSpentError(TemporaryError):
    """No more requests may be sent: the budget is spent."""


@dataclass(slots=True)
class RequestBudget:
    """The number of requests that all attempts may send. A bulk request counts as one for each of its books."""

    limit: float = inf
    spent: int = 0

    @property
    def left(self) -> float:
        """How many requests may still be sent."""
        return max(0, self.limit - self.spent)

    def spend(self, requests: int) -> None:
        """Count requests that are sent now; raise :class:`RequestsSpentError` if they must not be."""
        if requests > self.left:
            raise RequestsSpentError("max_requests allows no more requests.")
        self.spent += requests


class EarlierLookup(NamedTuple):
    """
    A look-up that an earlier dataset holds.

    It is taken without a request if it ``is_fresh``; if it is not, ``may_refresh`` says whether the budget has room.
    """

    lookup: Lookup
    is_fresh: bool
    may_refresh: bool = True


class EarlierLookups(Protocol):
    """The look-ups of earlier datasets."""

    def find(self, isbns: Sequence[str]) -> Mapping[str, EarlierLookup]:
        """Return those of books by ISBN. One call for many books takes less time than a call for each."""
        ...


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How a list is looked up."""

    window: int = 1_000  # the most rows that are read and not handed out
    ahead: int = 100  # rows that are read ahead of the requests
    bulk_size: int = 1  # the most books in one request; 1 for requests for one book each
    # The pauses after which a book that got no answer is retried.
    retry_after: Sequence[float] = RETRY_AFTER_SECONDS
    max_failures: int = 0  # rows that may be ``failed``; the next one ends the batch
    earlier: EarlierLookups | None = None
    budget: RequestBudget = field(default_factory=RequestBudget)

    def with_bulk(self, size: int) -> BatchOptions:
        """Return the options for bulk requests."""
        # Some of them wait in order for others, and some are read ahead.
        return replace(self, bulk_size=size, window=max(self.window, 3 * size))
