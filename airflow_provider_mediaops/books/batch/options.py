"""How a list of ISBNs is looked up: how far ahead, and in what bounds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import TemporaryError

if TYPE_CHECKING:
    from collections.abc import Sequence

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


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """
    How a list is looked up.

    :param window: the maximum number of rows that are read and not handed out.
    :param ahead: the number of rows that are read ahead of the requests.
    :param bulk_size: the maximum number of books in one request; 1 for requests for one book each.
    :param retry_after: the pauses in seconds after which a book that got no answer is retried.
    :param max_pause_seconds: the longest pause for which the service may ask. A reply that asks for a longer one ends
        the batch, unless a later request has found a book.
    :param max_failures: the number of rows that may be ``failed``; the next one ends the batch.
    :param budget: the number of requests that may be sent.
    """

    window: int = 1_000
    ahead: int = 100
    bulk_size: int = 1
    retry_after: Sequence[float] = RETRY_AFTER_SECONDS
    max_pause_seconds: float = inf
    max_failures: int = 0
    budget: RequestBudget = field(default_factory=RequestBudget)

    def with_bulk(self, size: int) -> BatchOptions:
        """Return the options for bulk requests."""
        # Some of them wait in order for others, and some are read ahead.
        return replace(self, bulk_size=size, window=max(self.window, 3 * size))
