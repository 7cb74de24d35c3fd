"""A run of look-ups whose 404s are held, with a clock beside it."""

from __future__ import annotations

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError, ForeignNotFoundError, WebPageNotFoundError
from airflow_provider_mediaops.books.held_not_found import Evidence, HeldNotFounds
from airflow_provider_mediaops.exceptions import (
    MediaOpsError,
    NotFoundError,
    ServiceUnavailableError,
)
from tests.unit.book_database import PROGRAMMING

A, B, C = "9780000000002", "9780000000019", "9780000000026"
CANARY = PROGRAMMING
CLEAR = NotFoundError("404: no such book.", status=404, excerpt='{"error_message": "no such book"}')
LIMIT = DoubtfulNotFoundError("404: Not Found.", status=404)
FOREIGN = ForeignNotFoundError("404: no Route matched.", status=404)
PAGE = WebPageNotFoundError("404: <html>.", status=404)
WORDS = {"clear": CLEAR, "limit": LIMIT, "foreign": FOREIGN, "web page": PAGE}
DOWN = ServiceUnavailableError("503")


class Run:
    """A run of look-ups, and a clock beside it."""

    def __init__(self, canary: str | None = CANARY, last_found: str | None = None) -> None:
        self.evidence = Evidence(canary, last_found)
        self.held = HeldNotFounds(self.evidence)
        self.now = 100.0
        self.asked = ""
        # That other words have to be tried by so many probes first is a test of its own.
        self.evidence.probes_found = 8

    def missing(self, isbn13: str, error: MediaOpsError) -> None:
        self.held.send()
        self.held.missing(isbn13, error, self.now)

    def found(self, isbn13: str) -> None:
        self.held.found(isbn13, self.held.send(), self.now)

    def check(self, *, idle: bool = True) -> str | None:
        probe = self.held.check(self.now, idle=idle)
        self.asked = probe or self.asked
        return probe

    def checked(self, error: MediaOpsError | None = None) -> None:
        self.held.checked(self.asked, error, self.held.send(), self.now)

    def decisions(self, *, idle: bool = True) -> list[tuple[str, str]]:
        return [(decision.isbn13, decision.action) for decision in self.held.decisions(self.now, idle=idle)]

    def error(self) -> MediaOpsError:
        [decision] = self.held.decisions(self.now, idle=True)
        assert decision.action == "later"
        return decision.error
