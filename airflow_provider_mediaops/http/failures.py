"""
Find out why an exchange got no whole reply, by the types of an error of the HTTP libraries and of its causes.

The libraries' own texts hold the whole address with its query. So none of them is told.
"""

from __future__ import annotations

import http.client
import os
import re
import ssl
from collections.abc import Iterator

import requests.exceptions
import urllib3.exceptions
from urllib3.util.ssl_match_hostname import CertificateError

from airflow_provider_mediaops.http.exchange import Failure, TransportError

STILL_COMING = "the reply was still coming in at the time limit"

_PROXY_REFUSED = (
    "the proxy refused the connection with 407: it asks for a user and password, which belong in its address, "
    "http://user:password@proxy:3128"
)
_NO_CLIENT_CERTIFICATE = "the server asks for a certificate of the client: client_cert and client_key"
_CLIENT_CERTIFICATE_REFUSED = "the server refuses the certificate in client_cert, or asks for one"
_NO_HTTP_PORT = (
    "the port speaks no HTTP, it is the one over which the nodes of a cluster talk (9300 as a rule); that for HTTP is "
    "9200 as a rule"
)
# All that a node answers on the port for its transport.
_ANSWER_OF_NO_HTTP_PORT = re.compile(b"This is not an? HTTP port")
# http.client has no exception type for this.
_REFUSED_BY_PROXY = re.compile("Tunnel connection failed: ([0-9]{3})")
_ALERTS_ABOUT_CERTIFICATES = (
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_UNKNOWN_CA",
    "ALERT_UNSUPPORTED_CERTIFICATE",
)


class _TooManyHeadersError(http.client.HTTPException):
    """Stands for the HTTPException itself, which http.client raises for too many headers only."""


# Errors from before a connection is looked for. No redirect is resolved, so these are never about one in a reply.
_UNUSABLE = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
)
# Stand-ins for the network such as requests-mock raise these, and record nothing.
_NO_CONNECTION = (requests.exceptions.ConnectTimeout, urllib3.exceptions.ConnectTimeoutError)
_LARGE_HEAD = (_TooManyHeadersError, http.client.LineTooLong)

# The failure of each type of error and, if the system's words do not say it, the detail; the first row that fits
# counts. Of a request that was not sent:
_UNSENT: tuple[tuple[tuple[type[BaseException], ...], Failure, str], ...] = (
    ((UnicodeError,), Failure.CONFIGURATION, "the address of the host or of the proxy cannot be sent"),
    ((ssl.SSLCertVerificationError, CertificateError), Failure.UNTRUSTED, ""),
    ((ssl.SSLError,), Failure.TLS, ""),
    ((TimeoutError, requests.exceptions.ConnectTimeout), Failure.NOT_SENT, "no connection within the time limit"),
    # Only a proxy replies before the request.
    (_LARGE_HEAD, Failure.NOT_SENT, "the headers of the proxy's reply are too large"),
    ((BaseException,), Failure.NOT_SENT, ""),
)
# Of a request that may have been sent:
_SENT: tuple[tuple[tuple[type[BaseException], ...], Failure, str], ...] = (
    (
        (TimeoutError, requests.Timeout, urllib3.exceptions.ReadTimeoutError),
        Failure.TIMEOUT,
        "no reply within the time limit",
    ),
    (_LARGE_HEAD, Failure.TOO_LARGE, "its headers are too large or too many"),
    ((BaseException,), Failure.BROKEN, ""),
)


def failure_of(error: Exception, *, may_have_sent: bool | None, is_late: bool) -> TransportError:
    """
    Return the failure that an error of the libraries stands for.

    ``may_have_sent`` is None where nothing recorded it; then the safe answer is yes.
    """
    causes = list(_causes_of(error))
    if refusal := _refused_client(causes):
        return refusal
    if any(isinstance(cause, _UNUSABLE) for cause in causes):
        return TransportError(Failure.CONFIGURATION, type(error).__name__)
    kinds = [_TooManyHeadersError if type(cause) is http.client.HTTPException else type(cause) for cause in causes]
    is_unsent = may_have_sent is False or any(isinstance(cause, _NO_CONNECTION) for cause in causes)
    rows = _UNSENT if is_unsent else _SENT
    failure, detail = next(
        (failure, detail) for types, failure, detail in rows if any(issubclass(kind, types) for kind in kinds)
    )
    if failure is Failure.TIMEOUT and is_late:
        detail = STILL_COMING
    return TransportError(failure, detail or _detail_of(causes))


def _causes_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, as the library raised it, and those that it wraps; the system's own is the last."""
    found: list[BaseException] = [error]
    for each in found:
        yield each
        wrapped = (*each.args, getattr(each, "reason", None), each.__cause__)
        found += [part for part in wrapped if isinstance(part, BaseException) and part not in found]


def _refused_client(causes: list[BaseException]) -> TransportError | None:
    """Return the failure if a proxy wants credentials, or a server another certificate: it reads no request then."""
    for cause in causes:
        if _refused_with(cause) == "407":
            return TransportError(Failure.CONFIGURATION, _PROXY_REFUSED)
        alert = (cause.reason or "") if isinstance(cause, ssl.SSLError) else ""
        if alert.endswith("ALERT_CERTIFICATE_REQUIRED"):
            return TransportError(Failure.CONFIGURATION, f"{_NO_CLIENT_CERTIFICATE} ({alert})")
        if alert.endswith(_ALERTS_ABOUT_CERTIFICATES):
            return TransportError(Failure.CONFIGURATION, f"{_CLIENT_CERTIFICATE_REFUSED} ({alert})")
    return None


def _refused_with(error: BaseException) -> str:
    """Return the status with which a proxy refused a tunnel; empty for another error."""
    refusal = _REFUSED_BY_PROXY.match(str(error))
    return refusal[1] if refusal else ""


def _detail_of(causes: list[BaseException]) -> str:
    """Describe an error in one line: its type, and the system's message if there is one."""
    for cause in causes:
        if message := _system_message(cause):
            return f"{type(cause).__name__}: {message}"
    return type(causes[-1]).__name__


def _system_message(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return getattr(error, "verify_message", "") or error.reason or "TLS failed"
    if status := _refused_with(error):
        return f"the proxy refused the connection with {status}"
    start: object = getattr(error, "partial", None)
    # urllib3's own has a number there.
    if isinstance(start, bytes) and _ANSWER_OF_NO_HTTP_PORT.match(start):
        return _NO_HTTP_PORT
    if not isinstance(error, OSError):
        return ""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or ""
