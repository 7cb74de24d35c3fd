"""
Which books of a list are asked for: those that no earlier dataset holds first, then those whose look-up is too old.

It sends nothing. A list may have a budget of requests, which all its attempts share: how much of it is spent is saved
with each commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from airflow_provider_mediaops.exceptions import TemporaryError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.books.models import Lookup

#: The error of a row that was not asked for.
NOT_ASKED = "max_requests was reached before there was an answer for it."


class RequestsSpentError(TemporaryError):
    """No more requests may be sent: the budget is spent."""


@dataclass(slots=True)
class RequestBudget:
    """
    The number of requests that a list may send. A bulk request counts as one for each of its books.

    :param limit: the maximum for all attempts together.
    :param spent: the number that was sent.
    """

    limit: int
    spent: int = 0

    @property
    def left(self) -> int:
        """How many requests may still be sent."""
        return max(0, self.limit - self.spent)

    def can_send(self, requests: int) -> bool:
        """Return whether so many requests may be sent."""
        return requests <= self.left

    def spend(self, requests: int) -> None:
        """Count requests that are sent now; raise :class:`RequestsSpentError` if they must not be."""
        if not self.can_send(requests):
            raise RequestsSpentError("max_requests allows no more requests.")
        self.spent += requests


class EarlierLookup(NamedTuple):
    """
    A look-up that an earlier dataset holds.

    :param lookup: the look-up; its ``input`` is the ISBN.
    :param is_fresh: whether it is young enough to be taken without a request.
    :param may_refresh: whether the budget has room for a request if it is not.
    """

    lookup: Lookup
    is_fresh: bool
    may_refresh: bool = True


class EarlierLookups(Protocol):
    """The look-ups of earlier datasets."""

    def find(self, isbns: Sequence[str]) -> Mapping[str, EarlierLookup]:
        """Return the look-ups of books by ISBN; those are missing of which no dataset holds one that can be used."""
        ...


@dataclass(slots=True)
class Spending:
    """
    Decides which books are asked for.

    :param earlier: the look-ups of earlier datasets; None if there are none.
    :param budget: the number of requests; None for no bound.
    :param new_books: the number of books that are still to come and that ``earlier`` does not hold. As many requests
        are kept for them; it matters only with a budget.
    """

    earlier: EarlierLookups | None = None
    budget: RequestBudget | None = None
    new_books: int = 0
    # The books that wait for their first request.
    _queued: int = field(default=0, init=False)

    @property
    def is_over(self) -> bool:
        """Whether no request may be sent any more."""
        return self.budget is not None and not self.budget.left

    def find(self, isbns: Sequence[str]) -> Mapping[str, EarlierLookup]:
        """Return the look-ups of earlier datasets. One call for many books takes less time than a call for each."""
        return {} if self.earlier is None else self.earlier.find(isbns)

    def refreshes(self, earlier: EarlierLookup) -> bool:
        """Return whether a book is asked for whose look-up is too old."""
        if self.budget is None:
            return True
        return earlier.may_refresh and self.budget.left - self._queued > self.new_books

    def queue(self, *, is_new: bool) -> None:
        """Take note of a book that is to be asked for."""
        self._queued += 1
        self.new_books -= is_new

    def unqueue(self, books: int) -> None:
        """Take note of books that wait for their first request no more."""
        self._queued -= books

    def can_send(self, books: int) -> bool:
        """Return whether a request may be sent."""
        return self.budget is None or self.budget.can_send(books)

    def at_most(self, books: int) -> int:
        """Return how many books one request may have."""
        return books if self.budget is None else min(books, self.budget.left)

    def spend(self, books: int) -> None:
        """Count a request that is sent now."""
        if self.budget:
            self.budget.spend(books)
