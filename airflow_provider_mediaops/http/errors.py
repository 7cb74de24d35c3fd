"""
Make the typed error of a refusal, or of a request without a reply.

Every text that comes from a reply goes through :func:`~airflow_provider_mediaops.http.reply.plain_text`, which
redacts it, folds it to one line, and cuts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    InvalidReplyError,
    MediaOpsError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    ReplyTimeoutError,
    ServiceUnavailableError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.http.redaction import redacted
from airflow_provider_mediaops.http.reply import ErrorDetails, excerpt, plain_text, read_error, retry_after_seconds

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request, Response, TransportError
    from airflow_provider_mediaops.http.rate_limit.schedule import QuotaExhausted

ErrorClass = type[MediaOpsError]

_BY_STATUS: dict[int, ErrorClass] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: ServiceUnavailableError,
    410: NotFoundError,
    429: RateLimitedError,
}

_ADVICE: dict[ErrorClass, str] = {
    BadRequestError: "Correct what the request asks for.",
    AuthenticationError: "Check the credentials in the connection.",
    PermissionDeniedError: "Give the account of this connection the right to do this.",
    NotFoundError: "Check the identifier, and the base address in the connection.",
    InvalidReplyError: "Check that the connection's base address is that of the service, not of a proxy or login page.",
    RateLimitedError: "Ask less often if this goes on.",
    QuotaExceededError: "Nothing succeeds before the quota's reset; ask for a larger one if this goes on.",
    ServiceUnavailableError: "The fault is on the service's side.",
    ReplyTimeoutError: "Raise the time limit if the service needs longer.",
}
# What becomes of requests to a wrong address.
_OF_A_WRONG_ADDRESS = (BadRequestError, NotFoundError, InvalidReplyError)
SUCCESS = range(200, 300)
_REDIRECTS = range(300, 400)
_REFUSALS = range(400, 500)
# Statuses of a request that was not carried out, whoever sends them. Others may come from a proxy that has passed the
# request on, for example 499 or a redirect, or after the service has carried it out, for example 409.
_NOT_CARRIED_OUT = frozenset({400, 401, 403, 404, 405, *range(411, 418), 422, 429})
# The maximum length of a parser's message in characters; it may quote the reply.
_MAX_FINDING_LENGTH = 500


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """The errors of one service. Reasons are in lower case; advice says what to do."""

    service: str  # for messages
    by_reason: Mapping[str, ErrorClass] = field(default_factory=dict)  # by the service's reason or name
    advice: Mapping[str, str] = field(default_factory=dict)  # by reason, if the class's own advice is too general
    advice_by_class: Mapping[ErrorClass, str] = field(default_factory=dict)  # in this service's words
    # Corrects the class by the service's own conventions.
    refine: Callable[[Response, ErrorDetails, ErrorClass], ErrorClass] = lambda _reply, _details, found: found
    # Returns when a quota that ran out at the given time is reset.
    quota_reset: Callable[[datetime], datetime] = lambda now: now + timedelta(days=1)
    # What to do if the reply itself shows the mistake, for example by its words; else empty. Before the other advice.
    advice_by_reply: Callable[[Response, ErrorDetails], str] = lambda _reply, _details: ""
    address_field: str = ""  # the field of the connection that holds the address; empty for its base address

    def refusal(self, request: Request, response: Response, now: datetime) -> MediaOpsError | None:
        """
        Make the typed error of a reply that refuses, by reason, name or status; None for one of success (2xx).

        A reason or name counts before the status, unless the two contradict each other. A write ends in an
        ``UncertainDeliveryError``, unless it is certain that the service has not carried it out: the reply is a refusal
        (4xx) with one of the service's own reasons, or its status says so.
        """
        status = response.status
        if status in SUCCESS:
            return None
        details = read_error(response, request.secrets)
        start = excerpt(response, request.secrets)
        named = self._named_class(status, details)
        cls = self.refine(response, details, named or _class_of(status))
        retry_after = retry_after_seconds(response.headers, now)
        if issubclass(cls, QuotaExceededError) and retry_after is None:
            retry_after = (self.quota_reset(now) - now).total_seconds()
        word = f" {details.reason}" if details.reason else ""
        said = details.message or start or "no explanation"
        stop = "" if said.endswith((".", "!", "?", "…")) else "."
        error = self._error(
            cls,
            request,
            f"answered {request.method} {whole_path(request)} with {status}{word}: {said}{stop}",
            self._advice_for(cls, details, request, response),
            status=status,
            reason=details.reason,
            retry_after=retry_after,
            excerpt=start or None,
        )
        refused = status in _NOT_CARRIED_OUT or (named is not None and status in _REFUSALS)
        return error if refused and not issubclass(cls, ServiceUnavailableError) else _of_a_write(request, error)

    def no_reply(self, request: Request, error: TransportError) -> MediaOpsError:
        """Make the typed error of a request that got no whole reply; it names the host, and what to check."""
        cause = plain_text(error.detail, request.secrets)
        happened = f"gave no whole reply to {request.method} {whole_path(request)}: {cause}."
        advice = error.failure.advice.format(address=self.address_field or "host and port")
        failed = self._error(error.failure.error, request, happened, advice)
        return _of_a_write(request, failed) if error.sent else failed

    def unusable(self, request: Request, response: Response, error: MediaOpsError) -> MediaOpsError:
        """
        Complete a parser's error, which may quote the reply, with its context.

        An :class:`InvalidReplyError` gets all of it. An error of another class has its own.
        """
        finding = plain_text(error.message, request.secrets, _MAX_FINDING_LENGTH)
        quotes = {"reason": error.reason, "excerpt": error.excerpt}
        shown = {name: quote and plain_text(quote, request.secrets) for name, quote in quotes.items()}
        if not isinstance(error, InvalidReplyError):
            # A parser knows the path of its request, but not of the base address.
            path = error.path and whole_path(request)
            return _of_a_write(request, type(error)(finding, **{**error.context(), **shown, "path": path}))
        unusable = self._error(
            InvalidReplyError,
            request,
            f"answered {request.method} {whole_path(request)} with {response.status}, but: {finding}",
            self._advice_for(InvalidReplyError, ErrorDetails(reason=shown["reason"]), request, response),
            status=response.status,
            reason=shown["reason"],
            excerpt=excerpt(response, request.secrets) or None,
        )
        return _of_a_write(request, unusable)

    def _error(self, cls: ErrorClass, request: Request, happened: str, advice: str, **more: Any) -> MediaOpsError:
        message = f"The {self.service} at {request.host} {happened} {advice}"
        return cls(message, service=self.service, method=request.method, path=whole_path(request), **more)

    def _named_class(self, status: int, details: ErrorDetails) -> ErrorClass | None:
        for word in (details.reason, details.name):
            found = self.by_reason.get(word.lower()) if word else None
            if found and _may_go_with(status, found):
                return found
        return None

    def _advice_for(self, cls: ErrorClass, details: ErrorDetails, request: Request, response: Response) -> str:
        mistake = _repeated_segment(request) if issubclass(cls, _OF_A_WRONG_ADDRESS) else ""
        if mistake := mistake or self.advice_by_reply(response, details):
            return mistake
        if response.status in _REDIRECTS:
            address = self.address_field or "the base address"
            return (
                f"The service redirects to {_redirect_target(request, response)}; redirects are not followed, so that "
                f"no credential reaches another host. Correct {address} in the connection."
            )
        return self.advice.get((details.reason or "").lower()) or self.advice_by_class.get(cls) or _ADVICE[cls]


def _class_of(status: int) -> ErrorClass:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status in _REFUSALS:
        return BadRequestError
    return ServiceUnavailableError if status >= _REFUSALS.stop else InvalidReplyError


def _of_a_write(request: Request, error: MediaOpsError) -> MediaOpsError:
    """Return the error of a request that may have been carried out."""
    if request.idempotent:
        return error
    return UncertainDeliveryError(
        f"It is not known whether {error.method} {error.path} took effect, and it is not sent again by itself. "
        f"{error.message} Look at the {error.service} before you repeat it.",
        **error.context(),
    )


def quota_error(request: Request, service: str, exhausted: QuotaExhausted, now: datetime) -> QuotaExceededError:
    """Make the error of a request that is not sent because the key's quota is used up."""
    # To the minute, so that clocks which differ by seconds say the same.
    until = now + timedelta(seconds=exhausted.seconds + 30)
    return QuotaExceededError(
        f"The quota of this key at the {service} is used up until {until:%Y-%m-%d %H:%M} UTC, so {request.method} "
        f"{request.path} was not sent: run it again after that, or ask for a larger quota.",
        service=service,
        method=request.method,
        path=request.path,
        retry_after=exhausted.seconds,
    )


def whole_path(request: Request) -> str:
    """Return the path of a request as the service sees it, redacted, without its query."""
    return redacted(f"{urlsplit(request.base).path}{request.path}", request.secrets)


def _repeated_segment(request: Request) -> str:
    # The base address ends with what every path of the service begins with, for example /v3.
    last, first = urlsplit(request.base).path.rpartition("/")[2], request.path.split("/")[1]
    if last != first:
        return ""
    return f"The base address in the connection ends in /{last}, which is added to it: take /{last} off."


def _may_go_with(status: int, cls: ErrorClass) -> bool:
    # A service that fails may quote any reason, and 401 is about the credentials, whatever else is said. Limits and
    # failures are reported with many statuses.
    if cls.temporary:
        return True
    if status == HTTPStatus.UNAUTHORIZED:
        return issubclass(cls, (AuthenticationError, PermissionDeniedError))
    return status < _REFUSALS.stop


def _redirect_target(request: Request, response: Response) -> str:
    # The query may hold a credential that is not ours, for example a ticket of a login page.
    target = response.headers.get("location", "").split("?")[0].split("#")[0]
    return plain_text(target, request.secrets) or "an address it does not name"
