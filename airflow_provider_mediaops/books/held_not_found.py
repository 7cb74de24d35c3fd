"""
The 404s of a run, held until a probe confirms them, by the rule of :mod:`airflow_provider_mediaops.books.not_found`.

It is pure: requests and their results are counted here, and sent elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.not_found import (
    AFTER_PROBE,
    CALM_SECONDS,
    KEY_CALL,
    LONGEST_PAUSE_SECONDS,
    MAX_HELD,
    MAX_HELD_SECONDS,
    MAX_VAIN_WAITS,
    MISSING,
    MISSING_PROBE,
    PROBES_BEFORE_DOUBTFUL,
    PROOF_SECONDS,
    WELL_KNOWN,
    Action,
    Meaning,
    Probe,
    Words,
    believed,
    limited,
    unconfirmed,
    undecided_error,
    wrong_connection,
)
from airflow_provider_mediaops.exceptions import error_from_dict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.exceptions import InvalidConnectionError, MediaOpsError, RateLimitedError


@dataclass(slots=True)
class Evidence:
    """What is known of a service and a key. Look-ups with one hook share it."""

    canary: str | None = None  # an ISBN-13 known to have a record, if any is
    last_found: str | None = None  # perhaps by an earlier attempt
    #: Whether the last book was found by this process.
    found_now: bool = field(default=False, init=False)
    #: When key and address were last proved: a book was found, or the key's quota was read.
    proved_at: float = field(default=float("-inf"), init=False)
    #: When the key's limit was last seen.
    limit_seen: float = field(default=float("-inf"), init=False)
    #: Whether the service has said in clear words of some book that it is not there.
    speaks_clearly: bool = field(default=False, init=False)
    #: The words of 404s that books have got which exist.
    disproved: set[Words] = field(default_factory=set, init=False)
    #: How many probes were found.
    probes_found: int = field(default=0, init=False)
    #: The probes that turned out not to exist.
    useless: set[str] = field(default_factory=set, init=False)

    def found(self, isbn13: str, now: float) -> None:
        """Take note of a book that was found."""
        self.last_found, self.found_now, self.proved_at = isbn13, True, now

    def is_proved(self, now: float) -> bool:
        """Return whether key and address were proved to work in the last ten minutes."""
        return now - self.proved_at < PROOF_SECONDS

    def is_clear(self, words: Words) -> bool:
        """Return whether a 404 in these words can only be about the book."""
        return words is Words.CLEAR and words not in self.disproved

    def kind_of(self, probe: str) -> Probe:
        """Return why a probe is known to exist."""
        if probe == self.last_found and self.found_now:
            return Probe.FOUND_NOW
        if probe == self.canary:
            return Probe.CANARY
        return Probe.FOUND_BEFORE if probe == self.last_found else Probe.WELL_KNOWN

    def candidates(self, turn: int, *, key_call: bool) -> list[str]:
        """
        Return the probes that may be asked for, the best first; ``turn`` is how many have failed in a row.

        If the service has no clear words, a canary that does not exist looks like the limit, so it takes turns with the
        well-known book.
        """
        others = [isbn for isbn in (self.canary, WELL_KNOWN) if isbn and isbn not in self.useless]
        start = turn % len(others) if others else 0
        first = [self.last_found] if self.last_found and self.last_found not in self.useless else []
        last = [KEY_CALL] if key_call and KEY_CALL not in self.useless else []
        return [*first, *others[start:], *others[:start], *last]


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
    """A 404 that is not decided on; ``sent`` and ``since`` say when it came, ``first`` when its first one did."""

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

    A probe serves all that are held when it is asked for. Any book of a list that is found is one. Requests are
    numbered in the order in which they are sent, so that it is known what was sent after a 404 came.
    """

    evidence: Evidence = field(default_factory=Evidence)
    patience_seconds: float = 240.0  # how long a probe that is not found is asked for again
    address: str = ""  # of the service, or a digest of it
    #: The error of a probe that speaks against the connection; nothing more is to be asked for.
    wrong: InvalidConnectionError | None = field(default=None, init=False)
    sent: int = field(default=0, init=False)
    _limit_to_report: RateLimitedError | None = field(default=None, init=False)
    # The 404s of an earlier attempt whose rows have not come yet, as plain values.
    _left: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    _held: dict[str, _Held] = field(default_factory=dict, init=False)
    _asked_again: dict[str, _Held] = field(default_factory=dict, init=False)
    _last_finding_request: int = field(default=0, init=False)
    _last_quota_request: int = field(default=0, init=False)
    _probe: str | None = field(default=None, init=False)
    _kind: Probe = field(default=Probe.WELL_KNOWN, init=False)
    _failed_probes: int = field(default=0, init=False)
    _vain_waits: int = field(default=0, init=False)
    _failure: MediaOpsError | None = field(default=None, init=False)
    _failing_since: float = field(default=0.0, init=False)
    _next_check: float = field(default=float("-inf"), init=False)
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
        self._end_doubts()

    def has_found_since(self, number: int) -> bool:
        """Return whether a book was found by a later request."""
        return self._last_finding_request > number

    def missing(self, isbn13: str, error: MediaOpsError, now: float) -> None:
        """Hold a 404, which is one of :data:`MISSING`."""
        before = self._asked_again.pop(isbn13, None)
        first, repeats = (before.first, before.repeats + 1) if before else (now, 0)
        self._held[isbn13] = _Held(error, self.sent, now, first, repeats)

    def take_up(self, doubts: Mapping[str, Any]) -> None:
        """Take up the doubts of an earlier attempt, unless they are about another address."""
        if doubts.get("address") == self.address:
            self.evidence.disproved.update(map(Words, doubts["disproved"]))
            self.evidence.speaks_clearly = doubts["speaks_clearly"]
            self._left = dict(doubts["undecided"])

    def resume(self, isbn13: str, now: float) -> bool:
        """Hold the 404 that an earlier attempt got for a book; return whether there is one."""
        fields = self._left.pop(isbn13, None)
        if fields:
            self.missing(isbn13, error_from_dict(fields), now)
        return fields is not None

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
        Return the probe to ask for now: a book, or :data:`KEY_CALL`; None while there is no need of one.

        ``idle`` says whether nothing else is under way, so that no other book will be found.
        """
        if self._probe or self.wrong or not self._is_due(now, idle=idle):
            return None
        self._probe = self._choose()
        # As it is known now: until the reply comes, another book may be the last that was found.
        self._kind = self.evidence.kind_of(self._probe) if self._probe else Probe.WELL_KNOWN
        return self._probe

    def checked(self, probe: str, error: MediaOpsError | None, number: int, now: float) -> None:
        """Take note of the reply about the probe: None if it was found, its 404, or another error."""
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
        """Decide on what can be decided, and forget it."""
        if self.wrong:
            return []
        patience = self.patience_seconds if self._vain_waits < MAX_VAIN_WAITS else 0.0
        if self._failed_probes and now - self._failing_since >= patience:
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
        return self._next_check if self.doubts_key else self._oldest() + MAX_HELD_SECONDS

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
            "disproved": sorted(words.value for words in self.evidence.disproved),
            "speaks_clearly": self.evidence.speaks_clearly,
        }

    def _oldest(self) -> float:
        return min(held.since for held in self._held.values())

    def _probe_found(self, probe: str, number: int, now: float) -> None:
        if probe != KEY_CALL:
            self.evidence.probes_found += 1
            self.found(probe, number, now)
            return
        self.evidence.proved_at = now
        self._last_quota_request = number
        self._end_doubts()

    def _end_doubts(self) -> None:
        self._failed_probes, self._vain_waits, self._failure = 0, 0, None

    def _probe_missing(self, probe: str, error: MediaOpsError, now: float) -> None:
        kind = self._kind
        meaning = MISSING_PROBE[kind][Words.of(error)]
        if meaning is Meaning.NO_PROBE:
            self.evidence.useless.add(probe)
        elif meaning is Meaning.WRONG_CONNECTION:
            self.wrong = wrong_connection(error, kind)
        else:
            if kind is Probe.WELL_KNOWN:
                # A small catalogue may lack it.
                self._see_limit_in(error, now)
            else:
                self._disprove(error, now)
            self._probe_failed(error, now)

    def _disprove(self, error: MediaOpsError, now: float) -> None:
        """Take note of the 404 of a book that exists."""
        words = Words.of(error)
        self.evidence.disproved.add(words)
        if words in (Words.CLEAR, Words.LIMIT):
            self._see_limit_in(error, now)

    def _see_limit_in(self, error: MediaOpsError, now: float) -> None:
        self.evidence.limit_seen = now
        self._limit_to_report = limited(error)

    def _probe_failed(self, error: MediaOpsError, now: float) -> None:
        if not self._failed_probes:
            self._failing_since = now
        self._failure = error
        self._next_check = now + min(2.0**self._failed_probes, LONGEST_PAUSE_SECONDS)
        self._failed_probes += 1

    def _decide(self, isbn13: str, held: _Held, now: float, *, idle: bool) -> Decision | None:
        evidence, clear = self.evidence, self.evidence.is_clear(held.words)
        if evidence.speaks_clearly and held.words is not Words.CLEAR:
            if held.words is Words.LIMIT:
                self._see_limit_in(held.error, now)
            return self._put_off(isbn13, held, "The service says it otherwise of other books.")
        if not self._is_confirmed(held):
            waited = idle or now - held.since >= MAX_HELD_SECONDS
            by_itself = self._needs_no_probe(now) and not self.doubts_key and waited
            return Decision(isbn13, "not_found", believed(held.error)) if by_itself else None
        evidence.speaks_clearly = evidence.speaks_clearly or clear
        actions = AFTER_PROBE[held.words if clear or held.words is not Words.CLEAR else Words.LIMIT]
        action = actions[min(held.repeats, len(actions) - 1)]
        if not clear and (why := self._why_later(held, action)):
            return self._put_off(isbn13, held, why)
        if not clear and action == "not_found" and evidence.probes_found < PROBES_BEFORE_DOUBTFUL:
            self._wants_probes = True
            return None
        return Decision(isbn13, action, believed(held.error) if action == "not_found" else held.error)

    def _why_later(self, held: _Held, action: Action) -> str | None:
        """Return why a 404 in doubtful words cannot be decided on now; None if it can."""
        if action == "later":
            return "Other books are found."
        if held.repeats and self.evidence.disproved:
            return "A book that exists has got such a reply, too."
        if action == "not_found" and self.evidence.limit_seen >= held.first - CALM_SECONDS:
            return "The key has been at its limit meanwhile."
        return None

    def _put_off(self, isbn13: str, held: _Held, why: str) -> Decision:
        return Decision(isbn13, "later", undecided_error(held.error, why, self._failure))

    def _put_off_unconfirmed(self, isbn13: str, held: _Held, why: str) -> Decision:
        if held.words is Words.LIMIT:
            return self._put_off(isbn13, held, why)
        kind = self.evidence.kind_of(isbn13)
        wrong = isbn13 == WELL_KNOWN and MISSING_PROBE[kind][held.words] is Meaning.WRONG_CONNECTION
        return Decision(isbn13, "later", wrong_connection(held.error, kind) if wrong else unconfirmed(held.error))

    def _put_off_all(self, why: str) -> list[Decision]:
        # The books are asked for again later: one of them may be found.
        put_off = self._put_off if self._failed_probes else self._put_off_unconfirmed
        decisions = [put_off(isbn13, held, why) for isbn13, held in self._held.items()]
        self._held.clear()
        self._failed_probes, self._next_check = 0, float("-inf")
        return decisions

    def _is_due(self, now: float, *, idle: bool) -> bool:
        if not self._held or now < self._next_check:
            return False
        many = len(self._held) >= MAX_HELD or now - self._oldest() >= MAX_HELD_SECONDS
        return self.doubts_key or self._wants_probes or ((idle or many) and not self._needs_no_probe(now))

    def _choose(self) -> str | None:
        clear = not self.evidence.canary and any(map(self._is_clear, self._held.values()))
        candidates = self.evidence.candidates(self._failed_probes, key_call=clear)
        return next((isbn for isbn in candidates if isbn not in self._held), None)

    def _is_clear(self, held: _Held) -> bool:
        return self.evidence.is_clear(held.words)

    def _is_confirmed(self, held: _Held) -> bool:
        by_quota = self._last_quota_request if self._is_clear(held) else 0
        return held.sent < max(self._last_finding_request, by_quota)

    def _needs_no_probe(self, now: float) -> bool:
        # One 404 in clear words, from a service that is known to answer this key at this address.
        alone = len(self._held) == 1 and all(map(self._is_clear, self._held.values()))
        return alone and self.evidence.is_proved(now)
