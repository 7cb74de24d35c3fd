"""
The table of the matrix: how each kind of work ends at each fault. It is the specification; docs/faults.md shows it.

An outcome is `recovered`, `nothing` (the service has no such call), `waits` (until its time limit), or the class of the
error with the advice that its message gives. A name in braces stands for words of the service: see :data:`WORDS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.faults.behaviours import FAULTS

if TYPE_CHECKING:
    from tests.faults.actions import Action
    from tests.faults.behaviours import Fault

RECOVERED, NOTHING, WAITS = "recovered", "nothing", "waits"
CUT_SHORT = "Warning: The service cut the listing short"
#: What the errors of each service advise.
WORDS = {
    "credentials": {
        "video": "check the connection's password, or use auth=refresh_token",
        "cluster": "Check login and password (API key or token), and auth, in the connection",
        "books": "check the connection's password, host and plan",
    },
    "rights": {
        "video": "Give the account of this connection the right to do this",
        "cluster": "Give the connection's user the permissions cluster:monitor/nodes/stats and",
        "books": "check the connection's host, plan and password",
    },
    "missing": {
        "video": "Check the identifier, and the base address in the connection",
        "cluster": "Check the base address in the connection: the cluster's routes are not there",
        "books": "so the base address may be wrong: check it, and set canary_isbn in the connection",
    },
    "limit": {
        "video": "Ask less often if this goes on",
        "cluster": "Ask less often if this goes on",
        "books": "Check that the connection's plan is the key's",
    },
    "late": {
        "video": "The fault is on the service's side",
        "cluster": "A proxy or load balancer before the cluster did not wait for the reply",
        "books": "The fault is on the service's side",
    },
}


@dataclass(frozen=True)
class Row:
    """
    How work ends at one fault.

    :param write: posting a bulletin; None as reading.
    :param waiting: a wait of a sensor or of a capture; None as reading.
    :param report: a report of hot threads, which is not JSON; None as reading.
    :param listing: a listing of many pages, and its export; None as reading.
    :param books: a list of ISBNs; None as reading.
    """

    read: str
    write: str | None = None
    waiting: str | None = None
    report: str | None = None
    listing: str | None = None
    books: str | None = None

    def of(self, kind: str) -> str:
        """Return the outcome of a kind of work."""
        if kind == "watching":
            # It ends for no error: an event would start a DAG.
            return WAITS if self in (_NO_CONNECTION, _NO_TLS, _UNTRUSTED) else RECOVERED
        return getattr(self, kind) or self.read


_NO_CONNECTION = Row(
    "ConnectionFailedError: Check host and port in the connection, and that the service is up.", waiting=WAITS
)
_NO_TLS = Row(
    "ConnectionFailedError: Check host and port in the connection, and the scheme (http or https).", waiting=WAITS
)
_UNTRUSTED = Row("InvalidConnectionError: Check the host, ca_cert and verify in the connection")
_UNSURE = "UncertainDeliveryError: Look at the video platform before you repeat it."
_TEMPORARY = {"write": _UNSURE, "waiting": RECOVERED}
_SLOW = Row("ReplyTimeoutError: Raise the read time limit in the connection if the service needs longer.", **_TEMPORARY)
_BROKEN = Row("ConnectionFailedError: The connection broke before the reply was whole", **_TEMPORARY)
_FAILING = Row("ServiceUnavailableError: The fault is on the service's side", **_TEMPORARY)
_LATE = Row("ServiceUnavailableError: {late}", **_TEMPORARY)
_LIMITED = Row("RateLimitedError: {limit}", waiting=RECOVERED)
_REFUSED = Row("BadRequestError: Correct what the request asks for.")
_MISSING = Row("NotFoundError: {missing}")
_UNREADABLE = Row(
    "InvalidReplyError: Check what stands between here and the service, for example a proxy.", write=_UNSURE
)
_TOO_LARGE = Row("InvalidReplyError: Ask for less at a time.", write=_UNSURE)
_REDIRECTED = Row(
    "InvalidReplyError: redirects are not followed, so that no credential reaches another host.", write=_UNSURE
)
_WRONG_ADDRESS = "InvalidReplyError: Check that the connection's base address is that of the service, not of a proxy"
_NOT_THE_REPLY = Row(_WRONG_ADDRESS, write=_UNSURE)
# A report is kept byte for byte, whatever its bytes.
_DAMAGED = Row(_WRONG_ADDRESS, write=_UNSURE, report=RECOVERED)
_HARMLESS = Row(RECOVERED)

#: The rows by the name of the fault.
TABLE: dict[str, Row] = {
    "connection refused": _NO_CONNECTION,
    "no connection in time": _NO_CONNECTION,
    "unknown host name": _NO_CONNECTION,
    "no TLS where it is due": _NO_TLS,
    "expired certificate": _UNTRUSTED,
    "certificate of another name": _UNTRUSTED,
    "certificate of an unknown authority": _UNTRUSTED,
    "no reply in time": _SLOW,
    "headers that trickle": _SLOW,
    "a body of one byte at a time": _SLOW,
    "connection reset": _BROKEN,
    "body cut (length)": _BROKEN,
    "body cut (chunks)": _BROKEN,
    "compression cut": _BROKEN,
    "400": _REFUSED,
    "401": Row("AuthenticationError: {credentials}"),
    "403": Row("PermissionDeniedError: {rights}"),
    "404": _MISSING,
    "408": _FAILING,
    # A service, or a proxy before it, says so after it has carried the request out, too.
    "409": Row(_REFUSED.read, write=_UNSURE),
    "410": Row(_MISSING.read, write=_UNSURE),
    "413": _REFUSED,
    "500": _FAILING,
    "502": _FAILING,
    "503": _FAILING,
    "504": _LATE,
    "429": _LIMITED,
    "429, Retry-After in seconds": _LIMITED,
    "429, Retry-After as a date": _LIMITED,
    "429, Retry-After in the past": _LIMITED,
    "429, Retry-After of a year": _LIMITED,
    "429, Retry-After NaN": _LIMITED,
    "broken compression": _UNREADABLE,
    "nested compression": _UNREADABLE,
    "2 GB where a page was due": _TOO_LARGE,
    "2 GB, compressed": _TOO_LARGE,
    **{f"{status} to another host": _REDIRECTED for status in (301, 302, 303, 307, 308)},
    **{f"{status} to itself": _REDIRECTED for status in (301, 302, 303, 307, 308)},
    "HTML in the place of the reply": _NOT_THE_REPLY,
    "JSON of another shape": _NOT_THE_REPLY,
    "JSON with fields of other types": _NOT_THE_REPLY,
    "an empty body": Row(
        _WRONG_ADDRESS,
        write=_UNSURE,
        report="InvalidReplyError: If no node answers in any time, check the nodes' own logs.",
    ),
    "a NUL byte": _DAMAGED,
    "invalid UTF-8": _DAMAGED,
    "deep nesting": _NOT_THE_REPLY,
    "duplicate keys": _HARMLESS,
    "numbers beyond 64 bits": _HARMLESS,
    # Of a capture, only the CPU is JSON. It goes on without.
    "a number beyond any float": _DAMAGED,
    "a page token that repeats": Row(CUT_SHORT),
    "page tokens that never end": Row(CUT_SHORT),
    "credentials revoked after the first reply": Row("AuthenticationError: {credentials}"),
    "an access token that expires at once": _HARMLESS,
    "a clock that jumps": _HARMLESS,
}
_AFTER_ONE = {row: Row(RECOVERED, write=row.write or RECOVERED) for row in (_BROKEN, _FAILING, _LIMITED)}
TABLE |= {fault.name: _AFTER_ONE[TABLE[fault.name.removesuffix(", once")]] for fault in FAULTS if fault.once}

# The same faults at the token address, which the first request with auth=refresh_token meets.
_LOOK_AT_CLIENT = "Check the client id (Login), scopes and token_url in the connection."
_LOOK_AT_TOKEN_URL = "Check token_url in the connection"
_AT_THE_TOKEN_ADDRESS = {
    _NO_CONNECTION.read: f"ConnectionFailedError: {_LOOK_AT_TOKEN_URL}",
    _NO_TLS.read: f"ConnectionFailedError: {_LOOK_AT_TOKEN_URL}",
    _REFUSED.read: f"BadRequestError: {_LOOK_AT_CLIENT}",
    _MISSING.read: f"NotFoundError: {_LOOK_AT_TOKEN_URL}",
    _WRONG_ADDRESS: f"InvalidReplyError: {_LOOK_AT_TOKEN_URL}",
    "AuthenticationError: {credentials}": f"AuthenticationError: {_LOOK_AT_CLIENT}",
    "PermissionDeniedError: {rights}": f"PermissionDeniedError: {_LOOK_AT_CLIENT}",
}

# "No such book" is an answer to a sensor. It waits for the book.
_MISSING_BOOK = {("BookSensor", "404"): RECOVERED, ("BookSensor", "410"): RECOVERED}
_NO_SUCH_CALL = ("BadRequestError", "PermissionDeniedError", "NotFoundError", "InvalidReplyError")


def expected(action: Action, fault: Fault) -> str:
    """Return how an action ends at a fault."""
    # The connection test asks once, whatever the number of attempts.
    name = fault.name.removesuffix(", once") if action.shown == "answered" else fault.name
    outcome = _MISSING_BOOK.get((action.name, name)) or TABLE[name].of(action.kind)
    if action.name == "key_usage" and outcome.startswith(_NO_SUCH_CALL):
        # A gateway may refuse in any way what it does not know.
        return NOTHING
    if action.name == "EnrichIsbnsOperator with bulk" and name == "credentials revoked after the first reply":
        # It makes one request.
        return RECOVERED
    if action.service == "books" and "{missing}" in outcome:
        outcome = outcome.replace("NotFoundError", "UnvouchedNotFoundError")
    if action.auth == "refresh_token" and not fault.after:
        outcome = _AT_THE_TOKEN_ADDRESS.get(outcome, outcome)
    for word, by_service in WORDS.items():
        outcome = outcome.replace(f"{{{word}}}", by_service[action.service])
    return outcome


@dataclass(frozen=True)
class StorageRow:
    """
    How a task ends at a fault of its storage.

    :param worker: an export or an enrichment in a worker.
    :param export: a deferred export; None as in a worker.
    :param enrichment: a deferred enrichment; None as in a worker.
    :param capture: a capture in a worker; None as the others there.
    :param triggerer_capture: a capture in the triggerer; None as in a worker.
    """

    worker: str
    export: str | None = None
    enrichment: str | None = None
    capture: str | None = None
    triggerer_capture: str | None = None

    def of(self, action: Action) -> str:
        """Return the outcome of an action."""
        deferred = action.form == "async" and not action.name.endswith("Notifier")
        if action.service == "cluster":
            here = self.capture or self.worker
            return (self.triggerer_capture or here) if deferred else here
        there = self.enrichment if action.service == "books" else self.export
        return (there or self.worker) if deferred else self.worker


_REMOVED = "was removed while the task wrote"
_FULL = "No space left on device"
_LOST = "No route to host"
#: The rows of faults of the storage.
STORAGE = {
    # The list of a deferred enrichment is written before the deferral.
    "disk full": StorageRow(
        f"OSError: {_FULL}", export=f"StorageError: {_FULL}", triggerer_capture=f"StorageError: {_FULL}"
    ),
    "folder gone during the work": StorageRow(
        f"OSError: {_REMOVED}",
        export=f"StorageError: {_REMOVED}",
        enrichment=f"StorageError: {_REMOVED}",
        capture=RECOVERED,
    ),
    "a file in the place of the folder": StorageRow("FileExistsError: cannot be written: File exists"),
    "store unreachable": StorageRow(f"OSError: {_LOST}"),
    "store lost during the work": StorageRow(
        f"OSError: {_LOST}",
        export=f"StorageError: {_LOST}",
        enrichment=f"StorageError: {_LOST}",
        triggerer_capture=f"StorageError: {_LOST}",
    ),
}
#: The rows of faults of the storage of a journal of bulletins: how a task ends, and how its next try does.
_NOT_SENT = "TemporaryError: The bulletin was not sent: its record cannot be used."
JOURNAL = {
    "disk full": (_NOT_SENT, RECOVERED),
    "store unreachable": (_NOT_SENT, RECOVERED),
    "store lost during the work": (
        RECOVERED,
        "UncertainDeliveryError: Look at the channel: if it is there, mark the task as success",
    ),
}
#: The rows of faults of the store that keeps the rate of a key. No request is sent then.
RATE_STORE = {
    "store unreachable": "RateStoreError: that this Redis runs",
    "disk full": "RateStoreError: Make sure that workers and triggerer can write this file",
}
