"""The rows of a list in its order: which are done, and which may be handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.models import Lookup
    from airflow_provider_mediaops.exceptions import MediaOpsError


class OrderedRows:
    """
    The rows of a batch, which are done in any order and handed out in that of the list.

    :param max_failures: the number of rows that may fail; the next one is not handed out, nor any after it.
    """

    def __init__(self, max_failures: int) -> None:
        self._max_failures = max_failures
        self._taken_in = self._handed_out = self._failures = 0
        self._done: dict[int, Lookup] = {}
        # Those of them that the next attempt would have to ask for again.
        self._saved: dict[int, Lookup] = {}
        #: The error of the row that failed and was one too many.
        self.error: MediaOpsError | None = None

    @property
    def held(self) -> int:
        """How many rows were taken in and are not handed out."""
        return self._taken_in - self._handed_out

    @property
    def done(self) -> int:
        """How many rows are done, handed out or not."""
        return self._handed_out + len(self._done)

    def take_in(self) -> int:
        """Take in the next row of the list, and return its position."""
        position, self._taken_in = self._taken_in, self._taken_in + 1
        return position

    def finish(self, position: int, lookup: Lookup, *, is_saved: bool = False) -> None:
        """Take note of a row that is done."""
        self._done[position] = lookup
        if is_saved:
            self._saved[position] = lookup

    def hand_out(self) -> list[Lookup]:
        """Return the rows that are done and whose turn it is, up to the first failure that is one too many."""
        turn: list[Lookup] = []
        while not self.error and (done := self._done.get(self._handed_out)):
            if done.cause and self._failures >= self._max_failures:
                self.error = done.cause
                break
            self._failures += done.cause is not None
            turn.append(self._done.pop(self._handed_out))
            self._saved.pop(self._handed_out, None)
            self._handed_out += 1
        return turn

    def out_of_order(self) -> list[Lookup]:
        """Return the rows to be saved that are done and wait for one before them."""
        return list(self._saved.values())
