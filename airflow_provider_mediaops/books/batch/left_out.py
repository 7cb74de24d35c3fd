"""The books that replies to bulk requests leave out: which of them are asked for by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.books.models import Status

#: The error of a book that is ``not_found`` because a reply left it out.
LEFT_OUT = "A bulk reply left it out, with another book that is missing; it was not asked for by itself."


class LeftOutBooks:
    """
    Decides which of the books that a reply leaves out are asked for by themselves.

    One book of each reply is asked for by itself, its sample: it shows whether the service has none of these books, or
    only names fewer. Once a sample is found, all such books are asked for.
    """

    def __init__(self) -> None:
        # Whether a sample was found.
        self._names_fewer = False
        # The other books of a reply, by its sample.
        self._samples: dict[str, list[str]] = {}

    def to_ask(self, isbns: Sequence[str]) -> list[str]:
        """Return which of the books that a reply leaves out are asked for by themselves."""
        if self._names_fewer or not isbns:
            return list(isbns)
        sample, *others = isbns
        self._samples[sample] = others
        return [sample]

    def settle(self, isbn13: str, status: Status) -> tuple[list[str], list[str]]:
        """
        Take note of a book that is done, which may be a sample.

        Return the books that are ``not_found`` because their sample was, and the books to ask for one by one.
        """
        others = self._samples.pop(isbn13, None)
        if others is None:
            return [], []
        if status == "not_found":
            return others, []
        # A service that leaves out a book that it has says nothing of the others.
        self._names_fewer = self._names_fewer or status == "found"
        return [], others

    def clear(self) -> None:
        """Forget all samples."""
        self._samples.clear()
