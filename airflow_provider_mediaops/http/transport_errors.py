"""Read the errors of HTTP libraries: the errors that they wrap, their meaning, and a description without secrets."""

from __future__ import annotations

import http.client
import os
import re
import ssl
from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.http.transport_settings import HEAD_TOO_LARGE, NO_CONNECTION

if TYPE_CHECKING:
    from collections.abc import Iterator

# http.client has no exception type for this.
_REFUSED_BY_PROXY = re.compile("Tunnel connection failed: ([0-9]{3})")


class HeadTooLargeError(http.client.HTTPException):
    """The reply's headers and interim replies are larger than the limit."""


def causes_of(error: BaseException) -> list[BaseException]:
    """List an error, as the library raised it, and those that it wraps; the system's own is the last."""
    return list(_walk(error))


def _walk(error: BaseException) -> Iterator[BaseException]:
    found: list[BaseException] = [error]
    for each in found:
        yield each
        wrapped = (*each.args, getattr(each, "reason", None), each.__cause__)
        found += [part for part in wrapped if isinstance(part, BaseException) and part not in found]


def detail_of(causes: list[BaseException]) -> str:
    """
    Describe an error in one line: its type, and the system's message if there is one.

    The libraries' own texts hold the whole address with its query.
    """
    for cause in causes:
        if message := _system_message(cause):
            return f"{type(cause).__name__}: {message}"
    return type(causes[-1]).__name__


def _is_head_too_large(causes: list[BaseException]) -> bool:
    """Return whether a reply was refused for the size or the number of its headers."""
    return any(
        isinstance(cause, (http.client.LineTooLong, HeadTooLargeError))
        # http.client has no type for too many headers.
        or type(cause) is http.client.HTTPException
        for cause in causes
    )


def failure_before_sending(causes: list[BaseException]) -> TransportError:
    """Return the failure of an exchange in which no part of the request was sent."""
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return TransportError(Failure.UNTRUSTED, detail_of(causes))
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return TransportError(Failure.TLS, detail_of(causes))
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return TransportError(Failure.NOT_SENT, NO_CONNECTION)
    if _is_head_too_large(causes):
        # Only a proxy replies before the request.
        return TransportError(Failure.NOT_SENT, "the headers of the proxy's reply are too large")
    return TransportError(Failure.NOT_SENT, detail_of(causes))


def failure_after_sending(causes: list[BaseException], time_limit: str) -> TransportError:
    """
    Return the failure of an exchange of which a part may have been sent.

    :param time_limit: the time limit that was reached, in words; empty if none was.
    """
    if time_limit:
        return TransportError(Failure.TIMEOUT, time_limit)
    if _is_head_too_large(causes):
        return TransportError(Failure.TOO_LARGE, HEAD_TOO_LARGE)
    return TransportError(Failure.BROKEN, detail_of(causes))


def _system_message(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return getattr(error, "verify_message", "") or error.reason or "TLS failed"
    if refusal := _REFUSED_BY_PROXY.match(str(error)):
        return f"the proxy refused the connection with {refusal[1]}"
    if not isinstance(error, OSError):
        return ""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or ""
