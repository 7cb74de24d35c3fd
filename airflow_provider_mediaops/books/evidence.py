"""What is known of a book database and a key: which books exist there, and what its 404s have meant so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_mediaops.books.not_found import KEY_CALL, WELL_KNOWN, Probe

# A key and an address that were proved to work are believed to do so for this long.
_PROOF_SECONDS = 600.0


@dataclass(slots=True)
class Evidence:
    """
    What is known of a service and a key. Look-ups with one hook may share it.

    :param canary: an ISBN-13 known to have a record, if any is.
    :param last_found: the book that was found last, perhaps by an earlier attempt.
    """

    canary: str | None = None
    last_found: str | None = None
    #: Whether the last book was found by this process.
    found_now: bool = field(default=False, init=False)
    #: When key and address were last proved: a book was found, or the key's quota was read.
    proved_at: float = field(default=float("-inf"), init=False)
    #: When the key's limit was last seen.
    limit_seen: float = field(default=float("-inf"), init=False)
    #: Whether the service has said in clear words of some book that it is not there.
    tells_apart: bool = field(default=False, init=False)
    #: Whether its clear words were about the limit, so that they are no clearer than others.
    misleads: bool = field(default=False, init=False)
    #: Whether a book that exists has got a foreign 404, so that such a 404 says nothing about a book.
    foreign_for_any_book: bool = field(default=False, init=False)
    #: The probes that turned out not to exist.
    useless: set[str] = field(default_factory=set, init=False)

    def found(self, isbn13: str, now: float) -> None:
        """Take note of a book that was found."""
        self.last_found, self.found_now, self.proved_at = isbn13, True, now

    def is_proved(self, now: float) -> bool:
        """Return whether key and address were proved to work in the last ten minutes."""
        return now - self.proved_at < _PROOF_SECONDS

    def kind_of(self, probe: str) -> Probe:
        """Return why a probe is known to exist."""
        if probe == self.last_found and self.found_now:
            return Probe.FOUND_NOW
        if probe == self.canary:
            return Probe.CANARY
        return Probe.FOUND_BEFORE if probe == self.last_found else Probe.WELL_KNOWN

    def candidates(self, turn: int, *, key_call: bool) -> list[str]:
        """
        Return the probes that may be asked for, the best first.

        :param turn: how many have failed in a row. If the service has no clear words, a canary that does not exist
            looks like the limit, so it takes turns with the well-known book.
        :param key_call: whether the key's quota will do.
        """
        others = [isbn for isbn in (self.canary, WELL_KNOWN) if isbn and isbn not in self.useless]
        start = turn % len(others) if others else 0
        first = [self.last_found] if self.last_found and self.last_found not in self.useless else []
        last = [KEY_CALL] if key_call and KEY_CALL not in self.useless else []
        return [*first, *others[start:], *others[:start], *last]
