"""How a list of ISBNs is looked up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.books.batch.spending import Spending

#: The pauses in seconds after which a book that got no answer is retried.
RETRY_AFTER_SECONDS = (10.0, 40.0, 120.0)


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
    :param spending: decides which books are asked for; None for all.
    """

    window: int = 1_000
    ahead: int = 100
    bulk_size: int = 1
    retry_after: Sequence[float] = RETRY_AFTER_SECONDS
    max_pause_seconds: float = inf
    max_failures: int = 0
    spending: Spending | None = None

    def with_bulk(self, size: int) -> BatchOptions:
        """Return the options for bulk requests."""
        # Some of them wait in order for others, and some are read ahead.
        return replace(self, bulk_size=size, window=max(self.window, 3 * size))
