"""
The one rule of 404s: which of them say that there is no such book. It is pure.

The service answers 404 for a book that it does not have, and for a key that has reached its limit. Whatever else may
stand at a wrong address does the same. So a 404 is believed only if a *probe*, which is a book known to exist, was
found by a request that was sent after the 404 came. One in clear words is also believed by itself if key and address
were proved to work in the last ten minutes.

The words of a 404 are the class of its error. Two tables say the rest: :data:`AFTER_PROBE`, what becomes of a 404 after
a probe was found, and :data:`MISSING_PROBE`, what it means if the probe itself is not found. Single look-ups, the
sensor, lists and bulk requests follow them alike (:mod:`airflow_provider_mediaops.books.held_not_found`);
``docs/guides/not_found.md`` shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from airflow_provider_mediaops.books.api import DoubtfulNotFoundError, ForeignNotFoundError, WebPageNotFoundError
from airflow_provider_mediaops.exceptions import (
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    RateLimitedError,
    ServiceUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

E = TypeVar("E", bound=MediaOpsError)

#: The probe if none was chosen: this book is in nearly every catalogue.
WELL_KNOWN = "9780140449136"
#: The probe that is no book: the call for the key's quota. It confirms a 404 in clear words only.
KEY_CALL = "/key"

Action = Literal["not_found", "again", "later"]
#: Why a probe is known to exist.
Probe = Literal["found in this run", "canary", "well known"]
#: What it means that a probe is not found. At the ``limit`` of the key and in an ``outage`` of the service, or of what
#: stands before it, it is asked for again after a pause; if there is ``no such probe``, another one is asked for.
Meaning = Literal["limit", "outage", "wrong connection", "no such probe"]

_Words = type[MediaOpsError]


class UnvouchedNotFoundError(InvalidConnectionError):
    """Nothing vouches for a 404: neither a book nor the key's quota could be read with this connection."""


#: What becomes of a 404 after a probe was found, by its words: when it came first, again, and for the third time.
AFTER_PROBE: Mapping[_Words, tuple[Action, Action, Action]] = {
    NotFoundError: ("not_found", "not_found", "not_found"),
    DoubtfulNotFoundError: ("again", "again", "not_found"),
    ForeignNotFoundError: ("again", "again", "not_found"),
    WebPageNotFoundError: ("again", "later", "later"),
}
#: The errors of a 404, in whichever words.
MISSING = tuple(AFTER_PROBE)
#: What it means that a probe is not found: by why it is known to exist, and by the words of its 404.
MISSING_PROBE: Mapping[Probe, Mapping[_Words, Meaning]] = {
    "found in this run": {
        NotFoundError: "limit",
        DoubtfulNotFoundError: "limit",
        ForeignNotFoundError: "outage",
        WebPageNotFoundError: "outage",
    },
    "canary": {
        NotFoundError: "wrong connection",
        DoubtfulNotFoundError: "limit",
        ForeignNotFoundError: "wrong connection",
        WebPageNotFoundError: "wrong connection",
    },
    "well known": {
        # A smaller catalogue may lack it; but that it says so in other words than a book database is no catalogue.
        NotFoundError: "no such probe",
        DoubtfulNotFoundError: "limit",
        ForeignNotFoundError: "wrong connection",
        WebPageNotFoundError: "wrong connection",
    },
}


def wrong_connection(error: MediaOpsError, probe: Probe) -> InvalidConnectionError:
    """Make the error of a probe whose 404 speaks against the connection."""
    if probe == "canary":
        advice = (
            "But the connection's canary_isbn names this book as one that exists: check the connection's base address, "
            "and canary_isbn."
        )
    else:
        advice = (
            "But nearly every catalogue has this book: check the connection's base address. If it is right, set "
            "canary_isbn in the connection to a book that exists there."
        )
    return _as(InvalidConnectionError, error, advice)


def believed(error: MediaOpsError) -> NotFoundError:
    """Return the error of a book that is not there."""
    if isinstance(error, NotFoundError):
        return error
    return _as(NotFoundError, error, "Other books are found, so it is this one that is not there.")


def unconfirmed(error: MediaOpsError) -> UnvouchedNotFoundError:
    """Make the error of a 404 that nothing vouches for."""
    advice = (
        "But neither a book nor the key's quota could be read with this connection, so the base address may be wrong: "
        "check it, and set canary_isbn in the connection to a book that exists."
    )
    return _as(UnvouchedNotFoundError, error, advice)


def limited(doubt: MediaOpsError, why: str = "") -> RateLimitedError:
    """Make the error of a 404 that cannot be told from the key's limit."""
    advice = "If that goes on, check the base address, and set canary_isbn in the connection to a book that exists."
    return _as(RateLimitedError, doubt, " ".join(filter(None, (why, advice))))


def undecided_error(doubt: MediaOpsError, why: str, *, is_outage: bool = False) -> MediaOpsError:
    """Make the error of a book whose 404 could not be decided on; in an outage no other book is found either."""
    if isinstance(doubt, (NotFoundError, DoubtfulNotFoundError)):
        return limited(doubt, why)
    is_page = isinstance(doubt, WebPageNotFoundError) and not is_outage
    return _as(InvalidReplyError if is_page else ServiceUnavailableError, doubt, why)


def _as(cls: type[E], error: MediaOpsError, more: str) -> E:
    return cls(f"{error.message} {more}", **error.context())
