"""
The 404s of a run, held until a probe confirms them, by the rule of :mod:`airflow_provider_mediaops.books.not_found`.

It is pure: requests and their results are counted here, and sent elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.not_found import (
    AFTER_PROBE,
    CALM_SECONDS,
    CLEAR,
    LIMIT,
    LONGEST_PAUSE_SECONDS,
    MAX_HELD_SECONDS,
    MISSING_PROBE,
    NOT_FOUND_ERRORS,
    PATIENCE_SECONDS,
    PROBES_BEFORE_DOUBTFUL,
    PROOF_SECONDS,
    WELL_KNOWN,
    Action,
    Meaning,
    Probe,
    believed,
    unconfirmed,
    undecided,
    wrong_connection,
)
from airflow_provider_mediaops.exceptions import error_from_dict

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import InvalidConnectionError, MediaOpsError


@dataclass(slots=True)
class Evidence:
    """What is known of a service and a key. Look-ups with one hook share it."""

    now: Callable[[], float]  # in seconds that never run backwards
    canary: str | None = None  # an ISBN-13 known to have a record, if any is
    last_found: str | None = None  # perhaps by an earlier attempt
    found_at: float = -inf  # when this process last found a book
    limit_seen: float = -inf  # when the key's limit was last seen
    speaks_clearly: bool = False  # whether the service has said in clear words of some book that it is not there
    disproved: set[type[MediaOpsError]] = field(default_factory=set)  # the words of 404s that existing books have got
    probes_found: int = 0
    useless: set[str] = field(default_factory=set)  # probes that turned out not to exist

    @property
    def is_proved(self) -> bool:
        """Whether key and address were proved to work in the last ten minutes."""
        return self.now() - self.found_at < PROOF_SECONDS

    def see_limit(self) -> None:
        """Take note that the key is at its limit now."""
        self.limit_seen = self.now()

    def is_clear(self, error: MediaOpsError) -> bool:
        """Return whether a 404 in these words can only be about the book."""
        return isinstance(error, CLEAR) and CLEAR not in self.disproved


@dataclass(frozen=True, slots=True)
class Decision:
    """
    What becomes of a book that got a 404.

    ``not_found``: it is not there; ``again``: ask for it once more, now; ``later``: it cannot be known now what the 404
    means, so ask for it after a pause.
    """

    isbn13: str
    action: Action
    error: MediaOpsError  # for ``later`` one that says why, else the 404


@dataclass(frozen=True, slots=True)
class _Held:
    """A 404 that is not decided on."""

    error: MediaOpsError
    sent: int  # the number of the last request that was sent before it came
    since: float  # when it came
    first: float  # when the book's first 404 came
    repeats: int


@dataclass(slots=True)
class HeldNotFounds:
    """
    The 404s of one run that are not decided on, and the decisions on them.

    A probe serves all that are held when it is asked for. Any book of a list that is found is one. Requests are
    numbered in the order in which they are sent, so that it is known what was sent after a 404 came.
    """

    evidence: Evidence
    patience_seconds: float = PATIENCE_SECONDS  # how long a probe that is not found is asked for again
    address: str = ""  # of the service, or a digest of it
    #: The error of a probe that speaks against the connection; nothing more is to be asked for.
    wrong: InvalidConnectionError | None = None
    sent: int = 0
    # A 404 that has shown the limit, for those who share the key.
    _limit_to_report: MediaOpsError | None = None
    # The 404s of an earlier attempt whose rows have not come yet, as plain values.
    _left: dict[str, dict[str, Any]] = field(default_factory=dict)
    _held: dict[str, _Held] = field(default_factory=dict)
    _asked_again: dict[str, _Held] = field(default_factory=dict)
    _last_finding_request: int = 0
    # The book that is asked for now to be the probe, and why it is known to exist.
    _probe: tuple[str, Probe] | None = None
    _failure: MediaOpsError | None = None  # of the last probe
    _failed_probes: int = 0  # in a row
    _failing_since: float = inf  # when the first of them failed: the patience ends so long after that
    _next_check: float = -inf
    _wants_probes: bool = False

    @property
    def doubts_key(self) -> bool:
        """Whether the last probe was not found, so that other requests are of no use."""
        return self._failure is not None

    def send(self) -> int:
        """Count a request that is sent, and return its number."""
        self.sent += 1
        return self.sent

    def found(self, isbn13: str, number: int) -> None:
        """Take note of a book that was found by the request of a number."""
        if before := self._asked_again.pop(isbn13, None):
            self._disprove(before.error)
        self.evidence.last_found, self.evidence.found_at = isbn13, self.evidence.now()
        self._last_finding_request = max(self._last_finding_request, number)
        self._failure, self._failed_probes, self._failing_since = None, 0, inf

    def hold(self, isbn13: str, error: MediaOpsError) -> None:
        """Hold a 404, which is one of :data:`NOT_FOUND_ERRORS`."""
        now = self.evidence.now()
        before = self._asked_again.pop(isbn13, None)
        first, repeats = (before.first, before.repeats + 1) if before else (now, 0)
        self._held[isbn13] = _Held(error, self.sent, now, first, repeats)

    def forget(self, isbn13: str) -> None:
        """Forget a book that is not asked for again, or got no answer then."""
        self._held.pop(isbn13, None)
        self._asked_again.pop(isbn13, None)

    def take_news(self) -> MediaOpsError | None:
        """Return, once, the error of a limit that no reply alone has shown, for those who share the key."""
        news, self._limit_to_report = self._limit_to_report, None
        return news

    def take_up(self, doubts: Mapping[str, Any]) -> None:
        """Take up the doubts of an earlier attempt, unless they are about another address."""
        if doubts.get("address") == self.address:
            self.evidence.disproved.update(words for words in NOT_FOUND_ERRORS if words.__name__ in doubts["disproved"])
            self.evidence.speaks_clearly = doubts["speaks_clearly"]
            self._left = dict(doubts["undecided"])

    def resume(self, isbn13: str) -> bool:
        """Hold the 404 that an earlier attempt got for a book; return whether there is one."""
        fields = self._left.pop(isbn13, None)
        if fields:
            self.hold(isbn13, error_from_dict(fields))
        return fields is not None

    def doubts(self) -> dict[str, Any]:
        """
        Return what the next attempt has to know, as plain values.

        ``undecided`` has the books whose 404 is not decided on, with the 404; ``disproved`` and ``speaks_clearly`` are
        those of :class:`Evidence`: a retry must not believe what this attempt has learnt to doubt.
        """
        held = {isbn13: held.error.to_dict() for isbn13, held in (self._held | self._asked_again).items()}
        return {
            "address": self.address,
            "undecided": self._left | held,
            "disproved": sorted(words.__name__ for words in self.evidence.disproved),
            "speaks_clearly": self.evidence.speaks_clearly,
        }

    def check(self, *, idle: bool) -> str | None:
        """
        Return the probe to ask for now; None while there is no need of one.

        ``idle`` says whether nothing else is under way, so that no other book will be found.
        """
        if self._probe or self.wrong or not self._is_due(idle=idle):
            return None
        self._probe = self._choose()
        return self._probe[0] if self._probe else None

    def checked(self, error: MediaOpsError | None, number: int) -> None:
        """Take note of the reply about the probe: None if it was found, its 404, or another error."""
        # Why it was known to exist when it was asked for: another book may be the last that was found meanwhile.
        probe, kind = self._probe or (WELL_KNOWN, Probe.WELL_KNOWN)
        self._probe = None
        if error is None:
            self.evidence.probes_found += 1
            self.found(probe, number)
        elif not isinstance(error, NOT_FOUND_ERRORS):
            self._probe_failed(error)
        elif (meaning := MISSING_PROBE[kind][type(error)]) is Meaning.NO_PROBE:
            self.evidence.useless.add(probe)
        elif meaning is Meaning.WRONG_CONNECTION:
            self.wrong = wrong_connection(error, kind)
        else:
            if kind is Probe.WELL_KNOWN:
                # A small catalogue may lack it.
                self._see_limit_in(error)
            else:
                self._disprove(error)
            self._probe_failed(error)

    def decisions(self, *, idle: bool) -> list[Decision]:
        """Decide on what can be decided, and forget it."""
        if self.wrong:
            return []
        if self._failure and self.evidence.now() - self._failing_since >= self.patience_seconds:
            how_long = f" for {self.patience_seconds:.0f} s" if self.patience_seconds else ""
            return self._put_off_all(f"No book that is known to exist was found{how_long}.")
        if not self._probe and self._choose() is None and self._is_due(idle=idle):
            return self._put_off_all("There is no book to confirm it with.")
        self._wants_probes = False
        decided = [
            decision for isbn13, held in self._held.items() if (decision := self._decide(isbn13, held, idle=idle))
        ]
        for decision in decided:
            held = self._held.pop(decision.isbn13)
            if decision.action == "again":
                self._asked_again[decision.isbn13] = held
        if not self._held:
            self._failure = None
        return decided

    def wakes_at(self) -> float:
        """Return the time at which there may be something to do although nothing has come; infinity for none."""
        if not self._held or self._probe or self.wrong:
            return inf
        return self._next_check if self.doubts_key else self._oldest() + MAX_HELD_SECONDS

    def _oldest(self) -> float:
        return min(held.since for held in self._held.values())

    def _is_due(self, *, idle: bool) -> bool:
        if not self._held or self.evidence.now() < self._next_check:
            return False
        waited = idle or self.evidence.now() - self._oldest() >= MAX_HELD_SECONDS
        return self.doubts_key or self._wants_probes or (waited and not self._needs_no_probe())

    def _needs_no_probe(self) -> bool:
        # One 404 in clear words, from a service that is known to answer this key at this address.
        [one, *others] = self._held.values()
        return not others and self.evidence.is_clear(one.error) and self.evidence.is_proved

    def _choose(self) -> tuple[str, Probe] | None:
        """Return the best book to be the probe, and why it is known to exist."""
        known, canary = self.evidence.last_found, self.evidence.canary
        before = Probe.CANARY if known == canary else Probe.FOUND_BEFORE
        best_first = (
            (known, Probe.FOUND_NOW if self.evidence.found_at > -inf else before),
            (canary, Probe.CANARY),
            (WELL_KNOWN, Probe.WELL_KNOWN),
        )
        unfit = self.evidence.useless | self._held.keys()
        return next(((isbn13, kind) for isbn13, kind in best_first if isbn13 and isbn13 not in unfit), None)

    def _disprove(self, error: MediaOpsError) -> None:
        """Take note of the 404 of a book that exists."""
        self.evidence.disproved.add(type(error))
        if isinstance(error, (CLEAR, LIMIT)):
            self._see_limit_in(error)

    def _see_limit_in(self, error: MediaOpsError) -> None:
        self.evidence.see_limit()
        self._limit_to_report = self._undecided(error, "The key is at its limit.")

    def _probe_failed(self, error: MediaOpsError) -> None:
        now = self.evidence.now()
        self._failure = error
        self._failing_since = min(self._failing_since, now)
        self._next_check = now + min(2.0**self._failed_probes, LONGEST_PAUSE_SECONDS)
        self._failed_probes += 1

    def _decide(self, isbn13: str, held: _Held, *, idle: bool) -> Decision | None:
        evidence, error = self.evidence, held.error
        if evidence.speaks_clearly and not isinstance(error, CLEAR):
            if isinstance(error, LIMIT):
                self._see_limit_in(error)
            return Decision(isbn13, "later", self._undecided(error, "The service says it otherwise of other books."))
        if held.sent >= self._last_finding_request:
            waited = idle or evidence.now() - held.since >= MAX_HELD_SECONDS
            by_itself = waited and self._needs_no_probe() and not self.doubts_key
            return Decision(isbn13, "not_found", error) if by_itself else None
        if evidence.is_clear(error):
            evidence.speaks_clearly = True
            return Decision(isbn13, "not_found", error)
        actions = AFTER_PROBE[LIMIT if isinstance(error, CLEAR) else type(error)]
        action = actions[min(held.repeats, len(actions) - 1)]
        if why := self._why_later(held, action):
            return Decision(isbn13, "later", self._undecided(error, why))
        if action == "not_found" and evidence.probes_found < PROBES_BEFORE_DOUBTFUL:
            self._wants_probes = True
            return None
        return Decision(isbn13, action, believed(error) if action == "not_found" else error)

    def _why_later(self, held: _Held, action: Action) -> str | None:
        """Return why a 404 in doubtful words cannot be decided on now; None if it can."""
        if action == "later":
            return "Other books are found."
        if held.repeats and self.evidence.disproved:
            return "A book that exists has got such a reply, too."
        if action == "not_found" and self.evidence.limit_seen >= held.first - CALM_SECONDS:
            return "The key has been at its limit meanwhile."
        return None

    def _undecided(self, error: MediaOpsError, why: str) -> MediaOpsError:
        return undecided(error, why, self.evidence.canary, self._failure)

    def _put_off_all(self, why: str) -> list[Decision]:
        """Have all books asked for again later: one of them may be found."""
        decisions = [
            Decision(
                isbn13,
                "later",
                self._undecided(held.error, why)
                if self._failure or isinstance(held.error, LIMIT)
                else unconfirmed(held.error, self.evidence.canary),
            )
            for isbn13, held in self._held.items()
        ]
        self._held.clear()
        # The patience stays spent until a book is found: the next books would wait for as long in vain.
        self._failure, self._failed_probes, self._next_check = None, 0, -inf
        return decisions
