"""From a reply that refuses, or none at all, to the typed error that the caller sees."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    BadRequestError,
    ConnectionFailedError,
    InvalidConnectionError,
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
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError
from airflow_provider_mediaops.http.reply import ErrorDetails, excerpt, plain_text, read_error
from airflow_provider_mediaops.http.retry import retry_after_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ErrorClass = type[MediaOpsError]

_BY_STATUS: dict[int, ErrorClass] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: ServiceUnavailableError,
    410: NotFoundError,
    429: RateLimitedError,
}

_WHAT_TO_DO: dict[ErrorClass, str] = {
    BadRequestError: "Correct what the request asks for.",
    AuthenticationError: "Check the credentials in the connection.",
    PermissionDeniedError: "Give the account of this connection the right to do this.",
    NotFoundError: "Check the identifier, and the base address in the connection.",
    InvalidReplyError: "Check that the connection's base address is that of the service, not of a proxy or login page.",
    RateLimitedError: "It is tried again after a pause; ask less often if this goes on.",
    QuotaExceededError: "Nothing succeeds before the quota's reset; ask for a larger one if this goes on.",
    ServiceUnavailableError: "The fault is on the service's side; it is tried again after a pause.",
    ReplyTimeoutError: "Raise the time limit if the service needs longer.",
}
SUCCESS = range(200, 300)
_REDIRECTS = range(300, 400)
_REFUSALS = range(400, 500)


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """
    How one service says no.

    :param service: its name, for messages.
    :param by_reason: error classes by the service's reason or name, in lower case.
    :param advice: what to do, by reason in lower case, where the class's own advice is too general.
    :param advice_by_class: what to do, by error class, in this service's words.
    :param refine: corrects the class by what only this service means.
    :param quota_reset: when the quota that ran out at the given time comes back.
    """

    service: str
    by_reason: Mapping[str, ErrorClass] = field(default_factory=dict)
    advice: Mapping[str, str] = field(default_factory=dict)
    advice_by_class: Mapping[ErrorClass, str] = field(default_factory=dict)
    refine: Callable[[Response, ErrorDetails, ErrorClass], ErrorClass] = lambda _reply, _details, found: found
    quota_reset: Callable[[datetime], datetime] = lambda now: now + timedelta(days=1)

    def refusal(self, request: Request, response: Response, now: datetime) -> MediaOpsError | None:
        """
        Make the typed error of a reply that refuses: by reason, then by name, then by status.

        :param request: what was asked.
        :param response: the reply.
        :param now: the time in UTC.
        :returns: the error, or None for a reply of success (2xx).
        """
        status = response.status
        if status in SUCCESS:
            return None
        details = read_error(response)
        cls = self.refine(response, details, self._class_of(status, details))
        retry_after = retry_after_seconds(response.headers, now)
        if issubclass(cls, QuotaExceededError) and retry_after is None:
            retry_after = (self.quota_reset(now) - now).total_seconds()
        said = details.message or excerpt(response) or "no explanation"
        word = f" {details.reason}" if details.reason else ""
        message = (
            f"The {self.service} at {request.host} answered {request.method} {request.path} with "
            f"{status}{word}: {said}{'' if said.endswith(('.', '!', '?', '…')) else '.'} "
            f"{self._what_to_do(cls, details, response)}"
        )
        return cls(
            message,
            service=self.service,
            method=request.method,
            path=request.path,
            status=status,
            reason=details.reason,
            retry_after=retry_after,
            excerpt=excerpt(response) or None,
        )

    def _class_of(self, status: int, details: ErrorDetails) -> ErrorClass:
        for word in (details.reason, details.name):
            if word and (found := self.by_reason.get(word.lower())):
                return found
        if status in _BY_STATUS:
            return _BY_STATUS[status]
        if status in _REFUSALS:
            return BadRequestError
        return ServiceUnavailableError if status >= _REFUSALS.stop else InvalidReplyError

    def _what_to_do(self, cls: ErrorClass, details: ErrorDetails, response: Response) -> str:
        if response.status in _REDIRECTS:
            return (
                f"The service redirects to {_redirect_target(response)}; redirects are not followed, so that no "
                "credential reaches another host. Put the right base address into the connection."
            )
        own = self.advice.get((details.reason or "").lower()) or self.advice_by_class.get(cls)
        return own or _WHAT_TO_DO[cls]

    def no_reply(self, request: Request, error: TransportError) -> MediaOpsError:
        """
        Make the typed error of a request that got no whole reply.

        :param request: what was asked.
        :param error: what the transport met.
        :returns: the error; it says where the connection was to go and what to check.
        """
        cls, what = _NO_REPLY[error.failure]
        message = (
            f"The {self.service} at {request.host} gave no whole reply to {request.method} {request.path}: "
            f"{error.detail}. {what}"
        )
        return cls(message, service=self.service, method=request.method, path=request.path)

    def in_context(self, request: Request, response: Response, error: InvalidReplyError) -> InvalidReplyError:
        """
        Say of a reply that could not be read where it came from.

        :param request: what was asked.
        :param response: the reply.
        :param error: what is wrong with it.
        :returns: the error with service, method, path, status and the start of the reply.
        """
        what = self.advice_by_class.get(InvalidReplyError, _WHAT_TO_DO[InvalidReplyError])
        return InvalidReplyError(
            f"The {self.service} at {request.host} answered {request.method} {request.path} with "
            f"{response.status}, but: {error.message} {what}",
            service=self.service,
            method=request.method,
            path=request.path,
            status=response.status,
            reason=error.reason,
            excerpt=excerpt(response) or None,
        )


def uncertain(error: MediaOpsError) -> UncertainDeliveryError:
    """
    Say of a write whose reply is not known that it may have happened.

    :param error: how the reply was lost.
    :returns: the error that ends the task.
    """
    return UncertainDeliveryError(
        f"It is not known whether {error.method} {error.path} took effect, and it is not sent again by itself. "
        f"{error.message} Look at the {error.service} before you repeat it.",
        **{**error.context(), "retry_after": None},
    )


def _redirect_target(response: Response) -> str:
    # What comes after the path may hold a credential that the service echoed.
    return plain_text(re.split("[?#]", response.headers.get("location", ""))[0]) or "an address it does not name"


_NO_REPLY: dict[Failure, tuple[ErrorClass, str]] = {
    Failure.CONFIGURATION: (
        InvalidConnectionError,
        "Nothing was sent. Correct the connection, or the proxies and certificates that the environment names.",
    ),
    Failure.NOT_SENT: (ConnectionFailedError, "Check host and port in the connection, and that the service is up."),
    Failure.TLS: (
        ConnectionFailedError,
        "Check the scheme (http or https) and the port in the connection.",
    ),
    Failure.UNTRUSTED: (
        InvalidConnectionError,
        "Nothing was sent. Check the host, ca_cert and verify in the connection, or REQUESTS_CA_BUNDLE.",
    ),
    Failure.BROKEN: (
        ConnectionFailedError,
        "The connection broke before the reply was whole; if it always does, check scheme (http or https) and port.",
    ),
    Failure.TIMEOUT: (ReplyTimeoutError, "Raise the read time limit in the connection if the service needs longer."),
    Failure.TOO_LARGE: (InvalidReplyError, "Ask for less at a time."),
    Failure.UNREADABLE: (InvalidReplyError, "Check what stands between here and the service, for example a proxy."),
}
