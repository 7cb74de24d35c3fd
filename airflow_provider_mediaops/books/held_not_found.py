"""
The 404s of a run, held until a probe is found, by the rule of :mod:`airflow_provider_mediaops.books.not_found`.

It is pure: requests and their results are counted here, and sent elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.evidence import Evidence
from airflow_provider_mediaops.books.not_found import (
    AFTER_PROBE,
    KEY_CALL,
    MISSING,
    MISSING_PROBE,
    WELL_KNOWN,
    Action,
    Meaning,
    Words,
    believed,
    limited,
    undecided_error,
    unvouched,
    wrong_connection,
)
from airflow_provider_mediaops.exceptions import InvalidConnectionError, NotFoundError

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import MediaOpsError, RateLimitedError

# The number of 404s, and the seconds, that may pass before a book is asked for only to be the probe.
_MAX_DOUBTFUL, _MAX_DOUBTFUL_SECONDS = 10, 2.0
_MAX_CLEAR, _MAX_CLEAR_SECONDS = 25, 5.0
# The seconds without a sign of the limit before a doubtful 404 is believed.
_CALM_SECONDS = 10.0
# If the limit was seen so recently, a doubtful 404 is believed if it comes again so many times: a key that others use
# too meets the limit now and then, also twice in a row.
_RECENT_SECONDS = 600.0
_REPEATS_AFTER_LIMIT = 3
# After so many waits for a probe that was not found, books are put off at once: each would wait for as long in vain.
_MAX_VAIN_WAITS = 4
# The maximum pause between two probes that are not found.
_LONGEST_PAUSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Decision:
    """
    What becomes of a book that got a 404.

    :param isbn13: the book.
    :param action: ``not_found``: it is not there; ``again``: ask for it once more, now; ``later``: it cannot be known
        now what the 404 means, so ask for it after a pause.
    :param error: for ``not_found`` a :class:`NotFoundError`; for ``again`` the 404; for ``later`` an error that says
        why.
    """

    isbn13: str
    action: Action
    error: MediaOpsError


@dataclass(frozen=True, slots=True)
class _Held:
    """
    A 404 that is not decided on.

    :param error: the 404.
    :param sent: the number of requests that had been sent when it came.
    :param since: when it came.
    :param first: when the book's first 404 came.
    :param repeats: how many times the book was asked for once more after a probe.
    """

    error: MediaOpsError
    sent: int
    since: float
    first: float
    repeats: int

    @property
    def words(self) -> Words:
        return Words.of(self.error)


@dataclass(slots=True)
class HeldNotFounds:
    """
    The 404s of one run that are not decided on, and the decisions on them.

    A probe serves all that are held when it is asked for. Any book of a list that is found is one.

    Requests are numbered in the order in which they are sent, so that it is known what was sent after a 404 came.

    :param evidence: what is known of the service.
    :param patience_seconds: how long a probe that is not found is asked for again.
    """

    evidence: Evidence = field(default_factory=Evidence)
    patience_seconds: float = 240.0
    #: The error of a probe that speaks against the connection; nothing more is to be asked for.
    wrong: InvalidConnectionError | None = field(default=None, init=False)
    sent: int = field(default=0, init=False)
    _limit_to_report: RateLimitedError | None = field(default=None, init=False)
    _held: dict[str, _Held] = field(default_factory=dict, init=False)
    _asked_again: dict[str, _Held] = field(default_factory=dict, init=False)
    _last_finding_request: int = field(default=0, init=False)
    _last_quota_request: int = field(default=0, init=False)
    _probe: str | None = field(default=None, init=False)
    _failed_probes: int = field(default=0, init=False)
    _vain_waits: int = field(default=0, init=False)
    _failure: MediaOpsError | None = field(default=None, init=False)
    _failing_since: float = field(default=0.0, init=False)
    _next_check: float = field(default=float("-inf"), init=False)

    @property
    def doubts_key(self) -> bool:
        """Whether the last probe was not found, so that other requests are of no use."""
        return self._failed_probes > 0

    def send(self) -> int:
        """Count a request that is sent, and return its number."""
        self.sent += 1
        return self.sent

    def found(self, isbn13: str, number: int, now: float) -> None:
        """
        Take note of a book that was found.

        :param isbn13: the book.
        :param number: the number of the request.
        :param now: the time, in seconds that never run backwards.
        """
        before = self._asked_again.pop(isbn13, None)
        if before and before.words in (Words.CLEAR, Words.LIMIT):
            self._see_limit_in(before.error, now)
        elif before:
            self.evidence.foreign_for_any_book = True
        self.evidence.found(isbn13, now)
        self._last_finding_request = max(self._last_finding_request, number)
        self._end_doubts()

    def has_found_since(self, number: int) -> bool:
        """
        Return whether a book was found by a later request.

        :param number: the number of a request.
        """
        return self._last_finding_request > number

    def missing(self, isbn13: str, error: MediaOpsError, now: float) -> None:
        """
        Hold a 404.

        :param isbn13: the book.
        :param error: one of :data:`MISSING`.
        :param now: the time.
        """
        before = self._asked_again.pop(isbn13, None)
        first, repeats = (before.first, before.repeats + 1) if before else (now, 0)
        self._held[isbn13] = _Held(error, self.sent, now, first, repeats)

    def forget(self, isbn13: str) -> None:
        """Forget a book that was asked for again, and got no answer."""
        self._asked_again.pop(isbn13, None)

    def forget_all(self) -> None:
        """Forget all books, because no more requests are sent."""
        self._held.clear()
        self._asked_again.clear()

    def see_limit(self, now: float) -> None:
        """Take note of a reply that says that the limit is reached."""
        self.evidence.limit_seen = now

    def take_news(self) -> RateLimitedError | None:
        """Return, once, the error of a limit that no reply alone has shown, for those who share the key."""
        news, self._limit_to_report = self._limit_to_report, None
        return news

    def check(self, now: float, *, idle: bool) -> str | None:
        """
        Return the probe to ask for now.

        :param now: the time.
        :param idle: whether nothing else is under way, so that no other book will be found.
        :returns: a book, or :data:`KEY_CALL`; None while there is no need of a probe.
        """
        if self._probe or self.wrong or not self._is_due(now, idle=idle):
            return None
        self._probe = self._choose()
        return self._probe

    def checked(self, probe: str, error: MediaOpsError | None, number: int, now: float) -> None:
        """
        Take note of the reply about the probe.

        :param probe: the probe, as :meth:`check` returned it.
        :param error: None if it was found; its 404, or the error that was the answer.
        :param number: the number of the request.
        :param now: the time.
        """
        self._probe = None
        if error is None:
            self._probe_found(probe, number, now)
        elif probe == KEY_CALL and not error.temporary:
            self.evidence.useless.add(probe)
        elif not isinstance(error, MISSING):
            self._probe_failed(error, now)
        else:
            self._probe_missing(probe, error, now)

    def decisions(self, now: float, *, idle: bool) -> list[Decision]:
        """
        Decide on what can be decided, and forget it.

        :param now: the time.
        :param idle: whether nothing else is under way.
        :returns: what becomes of which book.
        """
        if self.wrong:
            return []
        patience = self.patience_seconds if self._vain_waits < _MAX_VAIN_WAITS else 0.0
        if self._failed_probes and now - self._failing_since >= patience:
            self._vain_waits += 1
            how_long = f" for {self.patience_seconds:.0f} s" if self.patience_seconds else ""
            return self._put_off_all(f"No book that is known to exist was found{how_long}.")
        if not self._probe and self._choose() is None and self._is_due(now, idle=idle):
            return self._put_off_all("There is no book to confirm it with.")
        all_of_them = [self._decide(isbn13, held, now, idle=idle) for isbn13, held in self._held.items()]
        decided = [decision for decision in all_of_them if decision]
        for decision in decided:
            held = self._held.pop(decision.isbn13)
            if decision.action == "again":
                self._asked_again[decision.isbn13] = held
        if not self._held:
            self._failed_probes = 0
        return decided

    def wakes_at(self) -> float | None:
        """Return the time at which there may be something to do although nothing has come; None if there is none."""
        if not self._held or self._probe or self.wrong:
            return None
        if self.doubts_key:
            return self._next_check
        limits = {True: _MAX_CLEAR_SECONDS, False: _MAX_DOUBTFUL_SECONDS}
        return min(held.since + limits[self._is_clear(held)] for held in self._held.values())

    def undecided(self) -> dict[str, dict[str, Any]]:
        """Return the books whose 404 is not decided on, with the 404, as plain values for the next attempt."""
        return {isbn13: held.error.to_dict() for isbn13, held in (self._held | self._asked_again).items()}

    def _probe_found(self, probe: str, number: int, now: float) -> None:
        if probe != KEY_CALL:
            self.found(probe, number, now)
            return
        self.evidence.proved_at = now
        self._last_quota_request = number
        self._end_doubts()

    def _end_doubts(self) -> None:
        self._failed_probes, self._vain_waits, self._failure = 0, 0, None

    def _probe_missing(self, probe: str, error: MediaOpsError, now: float) -> None:
        kind, words = self.evidence.kind_of(probe), Words.of(error)
        meaning = MISSING_PROBE[kind][words]
        if meaning is Meaning.NO_PROBE:
            self.evidence.useless.add(probe)
        elif meaning is Meaning.WRONG_CONNECTION:
            self.wrong = wrong_connection(error, kind)
        else:
            if meaning is Meaning.LIMIT:
                self._see_limit_in(error, now)
            else:
                self.evidence.foreign_for_any_book = True
            self._probe_failed(error, now)

    def _probe_failed(self, error: MediaOpsError, now: float) -> None:
        if not self._failed_probes:
            self._failing_since = now
        self._failure = error
        self._next_check = now + min(2.0**self._failed_probes, _LONGEST_PAUSE_SECONDS)
        self._failed_probes += 1

    def _decide(self, isbn13: str, held: _Held, now: float, *, idle: bool) -> Decision | None:
        if self.evidence.tells_apart and not self.evidence.misleads and held.words is not Words.CLEAR:
            if held.words is Words.LIMIT:
                self._see_limit_in(held.error, now)
            return self._put_off(isbn13, held, "The service says it otherwise of other books.")
        if not self._is_vouched(held):
            waited = idle or now - held.since >= _MAX_CLEAR_SECONDS
            by_itself = self._needs_no_probe(now) and not self.doubts_key and waited
            return Decision(isbn13, "not_found", believed(held.error)) if by_itself else None
        clear = self._is_clear(held)
        self.evidence.tells_apart = self.evidence.tells_apart or clear
        words = Words.LIMIT if held.words is Words.CLEAR and not clear else held.words
        action = AFTER_PROBE[words][held.repeats > 0]
        if action == "later":
            return self._put_off(isbn13, held, "Other books are found.")
        if action == "not_found" and not clear:
            if words is Words.FOREIGN and self.evidence.foreign_for_any_book:
                return self._put_off(isbn13, held, "A book that exists has got such a reply, too.")
            if self.evidence.limit_seen >= held.first - _CALM_SECONDS:
                return self._put_off(isbn13, held, "The key has been at its limit meanwhile.")
            if now - self.evidence.limit_seen < _RECENT_SECONDS and held.repeats < _REPEATS_AFTER_LIMIT:
                action = "again"
        return Decision(isbn13, action, believed(held.error) if action == "not_found" else held.error)

    def _put_off(self, isbn13: str, held: _Held, why: str) -> Decision:
        return Decision(isbn13, "later", undecided_error(held.error, why, self._failure))

    def _put_off_unprobed(self, isbn13: str, held: _Held, why: str) -> Decision:
        if held.words is Words.LIMIT:
            return self._put_off(isbn13, held, why)
        kind = self.evidence.kind_of(isbn13)
        wrong = isbn13 == WELL_KNOWN and MISSING_PROBE[kind][held.words] is Meaning.WRONG_CONNECTION
        return Decision(isbn13, "later", wrong_connection(held.error, kind) if wrong else unvouched(held.error))

    def _put_off_all(self, why: str) -> list[Decision]:
        # The books are asked for again later: one of them may be found.
        put_off = self._put_off if self._failed_probes else self._put_off_unprobed
        decisions = [put_off(isbn13, held, why) for isbn13, held in self._held.items()]
        self._held.clear()
        self._failed_probes, self._next_check = 0, float("-inf")
        return decisions

    def _is_due(self, now: float, *, idle: bool) -> bool:
        if not self._held or now < self._next_check:
            return False
        if self.doubts_key:
            return True
        doubtful = [held.since for held in self._held.values() if not self._is_clear(held)]
        clear = [held.since for held in self._held.values() if self._is_clear(held)]
        return not self._needs_no_probe(now) and (
            idle
            or len(doubtful) >= _MAX_DOUBTFUL
            or len(clear) >= _MAX_CLEAR
            or now - min(doubtful, default=now) >= _MAX_DOUBTFUL_SECONDS
            or now - min(clear, default=now) >= _MAX_CLEAR_SECONDS
        )

    def _choose(self) -> str | None:
        clear = not self.evidence.canary and any(map(self._is_clear, self._held.values()))
        candidates = self.evidence.candidates(self._failed_probes, key_call=clear)
        return next((isbn for isbn in candidates if isbn not in self._held), None)

    def _see_limit_in(self, error: MediaOpsError, now: float) -> None:
        self.evidence.limit_seen = now
        self.evidence.misleads = self.evidence.misleads or isinstance(error, NotFoundError)
        self._limit_to_report = limited(error)

    def _is_clear(self, held: _Held) -> bool:
        return held.words is Words.CLEAR and not self.evidence.misleads

    def _is_vouched(self, held: _Held) -> bool:
        vouching = self._last_quota_request if self._is_clear(held) else 0
        return held.sent < max(self._last_finding_request, vouching)

    def _needs_no_probe(self, now: float) -> bool:
        # One 404 in clear words, from a service that is known to answer this key at this address.
        alone = len(self._held) == 1 and all(map(self._is_clear, self._held.values()))
        return alone and self.evidence.is_proved(now)
