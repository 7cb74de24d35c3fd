"""
The one rule of 404s: which of them say that there is no such book. It is pure.

The service answers 404 for a book that it does not have, and for a key that has reached its limit. Whatever else may
stand at a wrong address does the same. So a 404 is believed only if a *probe*, which is a book known to exist, was
found by a request that was sent after the 404 came. One in clear words is also believed by itself if a book was found
in the last ten minutes (:data:`PROOF_SECONDS`).

Two tables say the rest: :data:`AFTER_PROBE`, what becomes of a 404 after a probe was found, and
:data:`MISSING_PROBE`, what it means if the probe itself is not found. Single look-ups, the sensor, lists, bulk
requests and resumed lists follow them alike (:mod:`airflow_provider_mediaops.books.held_not_found`);
``docs/guides/not_found.md`` shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Literal, TypeVar

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError, ForeignNotFoundError, WebPageNotFoundError
from airflow_provider_mediaops.exceptions import (
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    RateLimitedError,
    ServiceUnavailableError,
)

E = TypeVar("E", bound=MediaOpsError)

#: The words of a 404, which the class of its error says: the service's clear ones for a missing book, the documented
#: ones for the limit, any others, and a web page, which the service never sends.
CLEAR, LIMIT, FOREIGN, WEB_PAGE = NOT_FOUND_ERRORS = (
    NotFoundError,
    DoubtfulNotFoundError,
    ForeignNotFoundError,
    WebPageNotFoundError,
)

#: The probe if none was chosen: this book is in nearly every catalogue.
WELL_KNOWN = "9780140449136"

#: A key and an address over which a book was found are believed to work for this long.
PROOF_SECONDS = 600.0
#: The seconds for which 404s are held before a book is asked for only to be the probe.
MAX_HELD_SECONDS = 5.0
#: Before doubtful words are believed for the first time, a book that exists is asked for so often without a 404: a
#: gateway that answers every second request so gives three to one book in eight.
PROBES_BEFORE_DOUBTFUL = 8
#: The seconds without a sign of the limit before a doubtful 404 is believed.
CALM_SECONDS = 10.0
#: The seconds for which a probe that is not found is asked for again, and the longest pause between two of them.
PATIENCE_SECONDS, LONGEST_PAUSE_SECONDS = 600.0, 30.0

Action = Literal["not_found", "again", "later"]


class UnvouchedNotFoundError(InvalidConnectionError):
    """Nothing confirms a 404: no book could be read with this connection."""


class Probe(Enum):
    """Why a probe is known to exist."""

    FOUND_NOW = "found in this run"
    FOUND_BEFORE = "found in an earlier attempt"
    CANARY = "canary_isbn"
    WELL_KNOWN = "the well-known book"


class Meaning(Enum):
    """What it means that a probe is not found."""

    LIMIT = "the key is at its limit: the probe is asked for again after a pause"
    OUTAGE = "the service, or what stands before it, fails: the probe is asked for again after a pause"
    WRONG_CONNECTION = "the connection is wrong: an error, and nothing more is asked for"
    NO_PROBE = "this book is none: another one is asked for"


#: What becomes of a 404 after a probe was found, by its words: when it came first, again, and for the third time.
AFTER_PROBE: Mapping[type[MediaOpsError], tuple[Action, Action, Action]] = {
    CLEAR: ("not_found", "not_found", "not_found"),
    LIMIT: ("again", "again", "not_found"),
    FOREIGN: ("again", "again", "not_found"),
    WEB_PAGE: ("again", "later", "later"),
}

# Of a probe that this run has not found itself. A smaller catalogue may lack it; but that it says so in
# other words than a book database is not a catalogue.
_NOT_FOUND_IN_THIS_RUN: Mapping[type[MediaOpsError], Meaning] = {
    CLEAR: Meaning.NO_PROBE,
    LIMIT: Meaning.LIMIT,
    FOREIGN: Meaning.WRONG_CONNECTION,
    WEB_PAGE: Meaning.WRONG_CONNECTION,
}
#: What it means that a probe is not found: by what it is, and by the words of its 404.
MISSING_PROBE: Mapping[Probe, Mapping[type[MediaOpsError], Meaning]] = {
    Probe.FOUND_NOW: {
        CLEAR: Meaning.LIMIT,
        LIMIT: Meaning.LIMIT,
        FOREIGN: Meaning.OUTAGE,
        WEB_PAGE: Meaning.OUTAGE,
    },
    Probe.FOUND_BEFORE: _NOT_FOUND_IN_THIS_RUN,
    Probe.CANARY: {**_NOT_FOUND_IN_THIS_RUN, CLEAR: Meaning.WRONG_CONNECTION},
    Probe.WELL_KNOWN: _NOT_FOUND_IN_THIS_RUN,
}


def wrong_connection(error: MediaOpsError, probe: Probe) -> InvalidConnectionError:
    """Make the error of a probe whose 404 speaks against the connection."""
    advice = {
        Probe.CANARY: "But the connection's canary_isbn names this book as one that exists: check the connection's "
        "base address, and canary_isbn.",
        Probe.FOUND_BEFORE: "But this book was found before: check the connection's base address.",
    }.get(
        probe,
        "But nearly every catalogue has this book: check the connection's base address. If it is right, set "
        "canary_isbn in the connection to a book that exists there.",
    )
    return _as(InvalidConnectionError, error, advice)


def believed(error: MediaOpsError) -> NotFoundError:
    """Return the error of a book that is not there."""
    if isinstance(error, NotFoundError):
        return error
    return _as(NotFoundError, error, "Other books are found, so it is this one that is not there.")


def unconfirmed(error: MediaOpsError, canary: str | None) -> UnvouchedNotFoundError:
    """Make the error of a 404 that nothing confirms."""
    advice = "But no book could be read with this connection, so the base address may be wrong: check it, and"
    return _as(UnvouchedNotFoundError, error, f"{advice} {_about_probe(canary)}")


def undecided(
    doubt: MediaOpsError, why: str, canary: str | None, failure: MediaOpsError | None = None
) -> MediaOpsError:
    """Make the error of a book whose 404 could not be decided on; ``failure`` is that of the last probe."""
    if isinstance(doubt, (CLEAR, LIMIT)):
        # It cannot be told from the key's limit.
        advice = (
            f"If that goes on, check the base address and that nothing else uses the key, and {_about_probe(canary)}"
        )
        return _as(RateLimitedError, doubt, f"{why} {advice}")
    page = isinstance(doubt, WEB_PAGE) and failure is None
    return _as(InvalidReplyError if page else ServiceUnavailableError, doubt, why)


def _about_probe(canary: str | None) -> str:
    if canary:
        return f"that the book of canary_isbn, {canary}, exists there."
    return "set canary_isbn in the connection to a book that exists."


def _as(cls: type[E], error: MediaOpsError, more: str) -> E:
    return cls(f"{error.message} {more}", **error.context())
