"""
The 404s of a run, held until a probe confirms them, by the rule of :mod:`airflow_provider_mediaops.books.not_found`.

It is pure: requests and their results are counted here, and sent elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError
from airflow_provider_mediaops.books.not_found import (
    AFTER_PROBE,
    KEY_CALL,
    MISSING,
    MISSING_PROBE,
    WELL_KNOWN,
    Action,
    Probe,
    believed,
    limited,
    unconfirmed,
    undecided_error,
    wrong_connection,
)
from airflow_provider_mediaops.exceptions import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.exceptions import InvalidConnectionError, MediaOpsError, RateLimitedError

# A key and an address that were proved to work are believed to do so for this long.
_PROOF_SECONDS = 600.0
# The number of 404s, and the seconds, that may pass before a book is asked for only to be the probe.
_MAX_HELD, _MAX_HELD_SECONDS = 25, 5.0
# Before doubtful words are believed for the first time, a book that exists is asked for so often without a 404: a
# gateway that answers every second request so gives three to one book in eight.
_PROBES_BEFORE_DOUBTFUL = 8
# The seconds without a sign of the limit before a doubtful 404 is believed.
_CALM_SECONDS = 10.0
# After so many waits for a probe that was not found, books are put off at once: each would wait for as long in vain.
_MAX_VAIN_WAITS = 4
# The maximum pause between two probes that are not found.
_LONGEST_PAUSE_SECONDS = 30.0
_NEVER = float("-inf")


@dataclass(slots=True)
class Evidence:
    """What is known of a service and a key. Look-ups with one hook share it."""

    #: An ISBN-13 known to have a record, if any is.
    canary: str | None = None
    #: The book that was found last.
    last_found: str | None = None
    #: When key and address were last proved: a book was found, or the key's quota was read.
    proved_at: float = _NEVER
    #: When the key's limit was last seen.
    limit_seen: float = _NEVER
    #: Whether the service has said in clear words of some book that it is not there.
    speaks_clearly: bool = False
    #: The words of 404s that books have got which exist, as the names of their classes.
    disproved: set[str] = field(default_factory=set)
    #: How many probes were found.
    probes_found: int = 0
    #: The probes that turned out not to exist.
    useless: set[str] = field(default_factory=set)

    def found(self, isbn13: str, now: float) -> None:
        """Take note of a book that was found."""
        self.last_found, self.proved_at = isbn13, now

    def is_proved(self, now: float) -> bool:
        """Return whether key and address were proved to work in the last ten minutes."""
        return now - self.proved_at < _PROOF_SECONDS

    def is_clear(self, error: MediaOpsError) -> bool:
        """Return whether a 404 in these words can only be about the book."""
        return isinstance(error, NotFoundError) and NotFoundError.__name__ not in self.disproved


@dataclass(frozen=True, slots=True)
class Decision:
    """
    What becomes of a book that got a 404.

    ``not_found``: it is not there; ``again``: ask for it once more, now; ``later``: it cannot be known now what the 404
    means, so ask for it after a pause. The error says why it is ``later``; else it is that of the 404.
    """

    isbn13: str
    action: Action
    error: MediaOpsError


@dataclass(frozen=True, slots=True)
class _Held:
    """A 404 that is not decided on; ``sent`` and ``since`` say when it came, ``first`` when its first one did."""

    error: MediaOpsError
    sent: int
    since: float
    first: float
    repeats: int


@dataclass(slots=True)
class HeldNotFounds:
    """
    The 404s of one run that are not decided on, and the decisions on them.

    A probe serves all that are held when it is asked for. Any book of a list that is found is one. Requests are
    numbered in the order in which they are sent, so that it is known what was sent after a 404 came.
    """

    evidence: Evidence = field(default_factory=Evidence)
    #: How long a probe that is not found is asked for again.
    patience_seconds: float = 240.0
    #: The address of the service, or a digest of it.
    address: str = ""
    #: The error of a probe that speaks against the connection; nothing more is to be asked for.
    wrong: InvalidConnectionError | None = field(default=None, init=False)
    sent: int = field(default=0, init=False)
    _limit_to_report: RateLimitedError | None = field(default=None, init=False)
    _held: dict[str, _Held] = field(default_factory=dict, init=False)
    _asked_again: dict[str, _Held] = field(default_factory=dict, init=False)
    _last_finding_request: int = field(default=0, init=False)
    _last_quota_request: int = field(default=0, init=False)
    _probe: str | None = field(default=None, init=False)
    _kind: Probe = field(default="well known", init=False)
    _failed_probes: int = field(default=0, init=False)
    _vain_waits: int = field(default=0, init=False)
    _failing_since: float = field(default=0.0, init=False)
    _next_check: float = field(default=_NEVER, init=False)
    _wants_probes: bool = field(default=False, init=False)

    @property
    def doubts_key(self) -> bool:
        """Whether the last probe was not found, so that other requests are of no use."""
        return self._failed_probes > 0

    def send(self) -> int:
        """Count a request that is sent, and return its number."""
        self.sent += 1
        return self.sent

    def found(self, isbn13: str, number: int, now: float) -> None:
        """Take note of a book that was found by the request of a number."""
        if before := self._asked_again.pop(isbn13, None):
            self._disprove(before.error, now)
        self.evidence.found(isbn13, now)
        self._last_finding_request = max(self._last_finding_request, number)
        self._failed_probes, self._vain_waits = 0, 0

    def has_found_since(self, number: int) -> bool:
        """Return whether a book was found by a later request."""
        return self._last_finding_request > number

    def missing(self, isbn13: str, error: MediaOpsError, now: float) -> None:
        """Hold a 404, which is one of :data:`MISSING`."""
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

    def doubts(self) -> dict[str, Any]:
        """Return, as plain values, what a retry must not believe any more."""
        evidence = self.evidence
        return {
            "address": self.address,
            "disproved": sorted(evidence.disproved),
            "speaks_clearly": evidence.speaks_clearly,
        }

    def take_up(self, doubts: Mapping[str, Any]) -> None:
        """Take up the doubts of an earlier attempt, unless they are about another address."""
        if doubts.get("address") == self.address:
            self.evidence.disproved.update(doubts["disproved"])
            self.evidence.speaks_clearly = doubts["speaks_clearly"]

    def check(self, now: float, *, idle: bool) -> str | None:
        """
        Return the probe to ask for now: a book, or :data:`KEY_CALL`; None while there is no need of one.

        ``idle`` says whether nothing else is under way, so that no other book will be found.
        """
        if self._probe or self.wrong or not self._is_due(now, idle=idle):
            return None
        self._probe, evidence = self._choose(), self.evidence
        # As it is known now: until the reply comes, another book may be the last that was found.
        is_found, is_canary = self._probe == evidence.last_found, self._probe == evidence.canary
        self._kind = "found in this run" if is_found else "canary" if is_canary else "well known"
        return self._probe

    def checked(self, probe: str, error: MediaOpsError | None, number: int, now: float) -> None:
        """Take note of the reply about the probe: None if it was found, its 404, or another error."""
        self._probe = None
        if error is None and probe == KEY_CALL:
            self.evidence.proved_at, self._last_quota_request = now, number
            self._failed_probes, self._vain_waits = 0, 0
        elif error is None:
            self.evidence.probes_found += 1
            self.found(probe, number, now)
        elif probe == KEY_CALL and not error.temporary:
            self.evidence.useless.add(probe)
        elif isinstance(error, MISSING):
            self._probe_missing(probe, error, now)
        else:
            self._probe_failed(now)

    def decisions(self, now: float, *, idle: bool) -> list[Decision]:
        """Decide on what can be decided, and forget it."""
        if self.wrong:
            return []
        patience = self.patience_seconds if self._vain_waits < _MAX_VAIN_WAITS else 0.0
        if self.doubts_key and now - self._failing_since >= patience:
            self._vain_waits += 1
            how_long = f" for {self.patience_seconds:.0f} s" if self.patience_seconds else ""
            return self._put_off_all(f"No book that is known to exist was found{how_long}.")
        if not self._probe and self._choose() is None and self._is_due(now, idle=idle):
            return self._put_off_all("There is no book to confirm it with.")
        self._wants_probes = False
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
        return self._next_check if self.doubts_key else self._oldest() + _MAX_HELD_SECONDS

    def _oldest(self) -> float:
        return min(held.since for held in self._held.values())

    def _probe_missing(self, probe: str, error: MediaOpsError, now: float) -> None:
        meaning = MISSING_PROBE[self._kind][type(error)]
        if meaning == "no such probe":
            self.evidence.useless.add(probe)
        elif meaning == "wrong connection":
            self.wrong = wrong_connection(error, self._kind)
        else:
            if self._kind == "well known":
                # A small catalogue may lack it.
                self._see_limit_in(error, now)
            else:
                self._disprove(error, now)
            self._probe_failed(now)

    def _disprove(self, error: MediaOpsError, now: float) -> None:
        """Take note of the 404 of a book that exists."""
        self.evidence.disproved.add(type(error).__name__)
        if isinstance(error, (NotFoundError, DoubtfulNotFoundError)):
            self._see_limit_in(error, now)

    def _see_limit_in(self, error: MediaOpsError, now: float) -> None:
        self.evidence.limit_seen = now
        self._limit_to_report = limited(error)

    def _probe_failed(self, now: float) -> None:
        if not self._failed_probes:
            self._failing_since = now
        self._next_check = now + min(2.0**self._failed_probes, _LONGEST_PAUSE_SECONDS)
        self._failed_probes += 1

    def _decide(self, isbn13: str, held: _Held, now: float, *, idle: bool) -> Decision | None:
        evidence, error, is_clear = self.evidence, held.error, self.evidence.is_clear(held.error)
        if evidence.speaks_clearly and not isinstance(error, NotFoundError):
            if isinstance(error, DoubtfulNotFoundError):
                self._see_limit_in(error, now)
            return self._put_off(isbn13, error, "The service says it otherwise of other books.")
        if not self._is_confirmed(held):
            waited = idle or now - held.since >= _MAX_HELD_SECONDS
            by_itself = self._needs_no_probe(now) and not self.doubts_key and waited
            return Decision(isbn13, "not_found", believed(error)) if by_itself else None
        evidence.speaks_clearly = evidence.speaks_clearly or is_clear
        # Clear words that were disproved count as those of the limit.
        words = DoubtfulNotFoundError if isinstance(error, NotFoundError) and not is_clear else type(error)
        actions = AFTER_PROBE[words]
        action = actions[min(held.repeats, len(actions) - 1)]
        if not is_clear and (why := self._why_later(held, action)):
            return self._put_off(isbn13, error, why)
        if not is_clear and action == "not_found" and evidence.probes_found < _PROBES_BEFORE_DOUBTFUL:
            self._wants_probes = True
            return None
        return Decision(isbn13, action, believed(error) if action == "not_found" else error)

    def _why_later(self, held: _Held, action: Action) -> str | None:
        """Return why a 404 in doubtful words cannot be decided on now; None if it can."""
        if action == "later":
            return "Other books are found."
        if held.repeats and self.evidence.disproved:
            return "A book that exists has got such a reply, too."
        if action == "not_found" and self.evidence.limit_seen >= held.first - _CALM_SECONDS:
            return "The key has been at its limit meanwhile."
        return None

    def _put_off(self, isbn13: str, error: MediaOpsError, why: str) -> Decision:
        return Decision(isbn13, "later", undecided_error(error, why, is_outage=self.doubts_key))

    def _put_off_all(self, why: str) -> list[Decision]:
        # The books are asked for again later: one of them may be found.
        decisions = [
            self._put_off(isbn13, held.error, why)
            if self.doubts_key or isinstance(held.error, DoubtfulNotFoundError)
            else Decision(isbn13, "later", unconfirmed(held.error))
            for isbn13, held in self._held.items()
        ]
        self._held.clear()
        self._failed_probes, self._next_check = 0, _NEVER
        return decisions

    def _is_due(self, now: float, *, idle: bool) -> bool:
        if not self._held or now < self._next_check:
            return False
        many = len(self._held) >= _MAX_HELD or now - self._oldest() >= _MAX_HELD_SECONDS
        return self.doubts_key or self._wants_probes or ((idle or many) and not self._needs_no_probe(now))

    def _choose(self) -> str | None:
        """Return the best probe that can be asked for; none is one for itself."""
        evidence = self.evidence
        probes = [evidence.last_found, evidence.canary, WELL_KNOWN]
        if not evidence.canary and any(evidence.is_clear(held.error) for held in self._held.values()):
            probes.append(KEY_CALL)
        unfit = {*self._held, *evidence.useless}
        return next((probe for probe in probes if probe and probe not in unfit), None)

    def _is_confirmed(self, held: _Held) -> bool:
        by_quota = self._last_quota_request if self.evidence.is_clear(held.error) else 0
        return held.sent < max(self._last_finding_request, by_quota)

    def _needs_no_probe(self, now: float) -> bool:
        # One 404 in clear words, from a service that is known to answer this key at this address.
        alone = len(self._held) == 1 and all(self.evidence.is_clear(held.error) for held in self._held.values())
        return alone and self.evidence.is_proved(now)
