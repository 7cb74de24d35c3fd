"""
The rule about 404 for many look-ups at a time: which of them are about a book, and which about the key. No I/O.

The service says 404 of a book that it does not have, and of a key that has reached its limit. So a 404 is held until a
*witness*, a book known to exist, was found by a request that was sent after the 404 had come: any book of the list that
is found meanwhile, or one that is asked for only for this. One witness serves all that is held.

A 404 whose body says "no such book" in the service's clear words is believed then; alone, with none before or after it,
without a witness too. One whose body hints at the limit is asked for once more, and believed where it is 404 again,
another witness was found after that, and the key has shown no sign of its limit around that time. Everything else goes
back to be asked for later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError
from airflow_provider_mediaops.exceptions import MediaOpsError, NotFoundError, RateLimitedError, error_from_dict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Any book will do for a witness that was not chosen: this one is in nearly every catalogue.
WELL_KNOWN = "9780140449136"

# How many 404s, and how many seconds, may pass before a book is asked for only to be the witness.
_DOUBTFUL, _DOUBTFUL_SECONDS = 10, 2.0
_CLEAR, _CLEAR_SECONDS = 25, 5.0
# Seconds without a sign of the limit before a doubtful 404 is believed.
_CALM = 10.0
# Seconds between two witnesses while the key is at its limit.
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True, slots=True)
class Decision:
    """
    What is to become of a book that got a 404.

    :param isbn13: the book.
    :param action: ``not_found``: it is not there; ``again``: it is asked for once more; ``later``: what the 404
        means could not be told, so the book is asked for again after a pause.
    :param error: the 404; for ``later`` an error that says why it could not be told.
    """

    isbn13: str
    action: Literal["not_found", "again", "later"]
    error: MediaOpsError


@dataclass(frozen=True, slots=True)
class _Held:
    """
    A 404 that is not decided on.

    :param error: the 404.
    :param sent: how many requests had been sent when it came.
    :param since: when it came.
    :param first: when the book's first 404 came.
    :param again: whether the book was asked for once more after a witness.
    """

    error: MediaOpsError
    sent: int
    since: float
    first: float
    again: bool

    @property
    def clear(self) -> bool:
        return isinstance(self.error, NotFoundError)


@dataclass(slots=True)
class NotFoundRule:
    """
    Decides on the 404s of one run.

    Requests are counted when they are sent, and the number of the request tells what came after what.

    :param canary: an ISBN-13 known to have a record, if any is.
    :param last_found: the book of this run that was found last.
    :param patience: for how many seconds a witness that is not found is asked for again.
    """

    canary: str | None = None
    last_found: str | None = None
    patience: float = 240.0
    sent: int = field(default=0, init=False)
    _news: RateLimitedError | None = field(default=None, init=False)
    _held: dict[str, _Held] = field(default_factory=dict, init=False)
    _asked_again: dict[str, _Held] = field(default_factory=dict, init=False)
    _vouched: int = field(default=0, init=False)
    _witness: str | None = field(default=None, init=False)
    _useless: set[str] = field(default_factory=set, init=False)
    _failed: int = field(default=0, init=False)
    _failing_since: float = field(default=0.0, init=False)
    _next_check: float = field(default=float("-inf"), init=False)
    _limit_seen: float = field(default=float("-inf"), init=False)
    # Whether this service has said of a book that it is not there, other than it says of a limit.
    _tells_apart: bool = field(default=False, init=False)
    # Whether its clear words were about the limit, so that they are no clearer than any other.
    _misleads: bool = field(default=False, init=False)

    @property
    def doubts_key(self) -> bool:
        """Whether the last witness was not found, so that other requests are of no use."""
        return self._failed > 0

    def send(self) -> int:
        """Count a request that is sent, and give its number."""
        self.sent += 1
        return self.sent

    def found(self, isbn13: str, number: int, now: float) -> None:
        """
        Take note of a book that was found.

        :param isbn13: the book.
        :param number: that of the request.
        :param now: the time, in seconds that never run backwards.
        """
        before = self._asked_again.pop(isbn13, None)
        if before:
            self._tell_limit(before.error, now)
            self._misleads = self._misleads or before.clear
        self.last_found = isbn13
        self._vouched = max(self._vouched, number)
        self._failed = 0

    def missing(self, isbn13: str, error: MediaOpsError, now: float) -> None:
        """
        Hold a 404.

        :param isbn13: the book.
        :param error: a :class:`NotFoundError` where the body is clear, else :class:`DoubtfulNotFoundError`.
        :param now: the time.
        """
        before = self._asked_again.pop(isbn13, None)
        self._held[isbn13] = _Held(error, self.sent, now, before.first if before else now, before is not None)

    def forget(self, isbn13: str) -> None:
        """Forget a book that was asked for again, and did not get an answer."""
        self._asked_again.pop(isbn13, None)

    def see_limit(self, now: float) -> None:
        """Take note of a reply that has said that the limit is reached."""
        self._limit_seen = now

    def take_news(self) -> RateLimitedError | None:
        """Hand out the error of a limit that no reply alone has shown, if there is one, for those who share the key."""
        news, self._news = self._news, None
        return news

    def check(self, now: float, *, idle: bool) -> str | None:
        """
        Say which book to ask for as the witness.

        :param now: the time.
        :param idle: whether nothing else is going on, so that no other book will be found.
        :returns: the book, or None while there is no need of one.
        """
        if self._witness or not self._is_due(now, idle=idle):
            return None
        self._witness = self._choose()
        return self._witness

    def checked(self, error: MediaOpsError | None, number: int, now: float) -> None:
        """
        Take note of the reply about the witness.

        :param error: None where it was found; its 404, or why the service did not tell.
        :param number: that of the request.
        :param now: the time.
        """
        witness, self._witness = self._witness, None
        if witness and error is None:
            self.found(witness, number, now)
            return
        if witness and isinstance(error, NotFoundError) and witness != self.last_found:
            # It was never known in this run to exist, and now it is said that it does not.
            self._useless.add(witness)
            return
        if isinstance(error, (DoubtfulNotFoundError, NotFoundError)):
            self._misleads = self._misleads or isinstance(error, NotFoundError)
            self._tell_limit(error, now)
        if not self._failed:
            self._failing_since = now
        self._next_check = now + min(2.0**self._failed, _LONGEST_PAUSE)
        self._failed += 1

    def decisions(self, now: float, *, idle: bool) -> list[Decision]:
        """
        Decide on what can be decided, and forget it.

        :param now: the time.
        :param idle: whether nothing else is going on.
        :returns: what is to become of which book.
        """
        if self._failed and now - self._failing_since >= self.patience:
            return self._give_up(f"No witness was found for {self.patience:.0f} s.")
        if not self._witness and self._choose() is None and self._is_due(now, idle=idle):
            return self._give_up("There is no witness.")
        decisions = [self._rule(isbn13, held, now, idle=idle) for isbn13, held in self._held.items()]
        decided = [decision for decision in decisions if decision]
        for decision in decided:
            held = self._held.pop(decision.isbn13)
            if decision.action == "again":
                self._asked_again[decision.isbn13] = held
        if not self._held:
            self._failed = 0
        return decided

    def wakes_at(self) -> float | None:
        """Give the time at which there may be something to do although nothing has come."""
        if not self._held or self._witness:
            return None
        if self.doubts_key:
            return self._next_check
        limits = {True: _CLEAR_SECONDS, False: _DOUBTFUL_SECONDS}
        return min(held.since + limits[self._is_clear(held)] for held in self._held.values())

    def undecided(self) -> dict[str, dict[str, Any]]:
        """Give the books whose 404 is not decided on, with the 404, as plain values: the next attempt may go on."""
        return {isbn13: held.error.to_dict() for isbn13, held in (self._held | self._asked_again).items()}

    def _rule(self, isbn13: str, held: _Held, now: float, *, idle: bool) -> Decision | None:
        if self._tells_apart and not self._misleads and not held.clear:
            self._tell_limit(held.error, now)
            return Decision(isbn13, "later", limited(held.error, "The service says it otherwise of other books."))
        if held.sent >= self._vouched:
            by_itself = self._is_alone and not self.doubts_key and (idle or now - held.since >= _CLEAR_SECONDS)
            return Decision(isbn13, "not_found", held.error) if by_itself else None
        if self._is_clear(held):
            self._tells_apart = True
            return Decision(isbn13, "not_found", held.error)
        if not held.again:
            return Decision(isbn13, "again", held.error)
        if self._limit_seen < held.first - _CALM:
            return Decision(isbn13, "not_found", held.error)
        return Decision(isbn13, "later", limited(held.error, "The key has been at its limit meanwhile."))

    def _give_up(self, what: str) -> list[Decision]:
        # Other books are asked for again: one of them may be found.
        decisions = [Decision(isbn13, "later", limited(held.error, what)) for isbn13, held in self._held.items()]
        self._held.clear()
        self._failed = 0
        return decisions

    def _is_due(self, now: float, *, idle: bool) -> bool:
        if not self._held or now < self._next_check:
            return False
        if self.doubts_key:
            return True
        doubtful = [held.since for held in self._held.values() if not self._is_clear(held)]
        clear = [held.since for held in self._held.values() if self._is_clear(held)]
        return not self._is_alone and (
            idle
            or len(doubtful) >= _DOUBTFUL
            or len(clear) >= _CLEAR
            or now - min(doubtful, default=now) >= _DOUBTFUL_SECONDS
            or now - min(clear, default=now) >= _CLEAR_SECONDS
        )

    def _choose(self) -> str | None:
        # One that was found does exist. The others by turns: where the service has no clear words, a canary that does
        # not exist looks like the limit.
        candidates = [self.last_found] if self.last_found else []
        others = [isbn for isbn in (self.canary, WELL_KNOWN) if isbn and isbn not in self._useless]
        turn = self._failed % len(others) if others else 0
        candidates += others[turn:] + others[:turn]
        return next((isbn for isbn in candidates if isbn not in self._held), None)

    def _tell_limit(self, error: MediaOpsError | None, now: float) -> None:
        self._limit_seen = now
        if error:
            self._news = limited(error)

    def _is_clear(self, held: _Held) -> bool:
        return held.clear and not self._misleads

    @property
    def _is_alone(self) -> bool:
        return len(self._held) == 1 and all(map(self._is_clear, self._held.values()))


def limited(doubt: MediaOpsError, what: str = "") -> RateLimitedError:
    """
    Make the error of a 404 that cannot be told from the key's limit.

    :param doubt: the 404.
    :param what: why not.
    :returns: the error.
    """
    advice = "If that goes on, set canary_isbn in the connection to a book that exists."
    return RateLimitedError(" ".join(filter(None, (doubt.message, what, advice))), **doubt.context())


def restored(undecided: Mapping[str, dict[str, Any]]) -> Iterable[tuple[str, MediaOpsError]]:
    """Give the books, with the 404 of each, that :meth:`NotFoundRule.undecided` described."""
    for isbn13, fields in undecided.items():
        error = error_from_dict(fields)
        # An error that this module knows but exceptions.py does not.
        yield (
            isbn13,
            error if isinstance(error, NotFoundError) else DoubtfulNotFoundError(error.message, **error.context()),
        )
