"""The errors of this provider: one tree, split by what the caller should do about them."""

from __future__ import annotations

from typing import Any, ClassVar

_CONTEXT = ("service", "method", "path", "status", "reason", "retry_after", "excerpt")


class MediaOpsError(Exception):
    """
    A call to a service that did not give what was asked for.

    :param message: what happened, to what, and what to do about it; free of secrets.
    :param service: the service's name, for example ``video platform``.
    :param method: the HTTP method of the request.
    :param path: the path of the request, without its query.
    :param status: the HTTP status of the reply; None where there was none.
    :param reason: the service's own word for the error, for example ``quotaExceeded``.
    :param retry_after: the seconds that the service asked to wait before another try.
    :param excerpt: the start of the reply's body, as plain text.
    """

    #: Whether the same request can succeed later with nothing changed by anyone.
    temporary: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        service: str | None = None,
        method: str | None = None,
        path: str | None = None,
        status: int | None = None,
        reason: str | None = None,
        retry_after: float | None = None,
        excerpt: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.service = service
        self.method = method
        self.path = path
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        self.excerpt = excerpt

    def to_dict(self) -> dict[str, Any]:
        """
        Give the error as plain values, as a trigger event carries it.

        :returns: the class's name under ``type`` and every field that is set.
        """
        known = {name: value for name, value in self.context().items() if value is not None}
        return {"type": type(self).__name__, "message": self.message, **known}

    def context(self) -> dict[str, Any]:
        """
        Give what the error knows beside its message, so that another of the same request can be made of it.

        :returns: the keyword arguments of the constructor.
        """
        return {name: getattr(self, name) for name in _CONTEXT}

    def __reduce__(self) -> tuple[Any, ...]:
        return error_from_dict, (self.to_dict(),)


class PermanentError(MediaOpsError):
    """An error that another try will meet again: something has to be changed first."""


class TemporaryError(MediaOpsError):
    """An error that may be gone at another try."""

    temporary = True


class InvalidConnectionError(PermanentError):
    """A field of the Airflow connection cannot be used."""


class BadRequestError(PermanentError):
    """The service understood the request and refuses what it asks."""


class AuthenticationError(PermanentError):
    """The service does not accept the credentials, or there are none."""


class PermissionDeniedError(PermanentError):
    """The credentials are good, but not for this: a scope, privilege or plan is missing."""


class NotFoundError(PermanentError):
    """What the request names does not exist."""


class UncertainDeliveryError(PermanentError):
    """A write was sent and its reply is not known: it may or may not have happened."""


class InvalidReplyError(PermanentError):
    """The reply is not what the service's documentation says."""


class RateLimitedError(TemporaryError):
    """Too many requests in a short time."""


class QuotaExceededError(TemporaryError):
    """A quota is used up: nothing succeeds until its reset."""


class ServiceUnavailableError(TemporaryError):
    """The service failed on its side (5xx, 408)."""


class ConnectionFailedError(TemporaryError):
    """No reply arrived: the connection could not be made, or broke."""


class ReplyTimeoutError(TemporaryError):
    """The reply did not come within the time limit."""


class RateStoreError(TemporaryError):
    """The store of the rate that tasks share cannot be used, so no request is sent."""


class DestinationInUseError(TemporaryError):
    """Another task is writing the same file at this moment."""


_BY_NAME: dict[str, type[MediaOpsError]] = {
    cls.__name__: cls
    for cls in (
        InvalidConnectionError,
        BadRequestError,
        AuthenticationError,
        PermissionDeniedError,
        NotFoundError,
        UncertainDeliveryError,
        InvalidReplyError,
        RateLimitedError,
        QuotaExceededError,
        ServiceUnavailableError,
        ConnectionFailedError,
        ReplyTimeoutError,
        RateStoreError,
        DestinationInUseError,
        PermanentError,
        TemporaryError,
    )
}


def error_from_dict(fields: dict[str, Any]) -> MediaOpsError:
    """
    Rebuild the typed error that :meth:`MediaOpsError.to_dict` described.

    :param fields: what ``to_dict`` returned, perhaps by another version of this package.
    :returns: an error of the same class; a plain :class:`MediaOpsError` where this version has no such class.
    """
    cls = _BY_NAME.get(str(fields.get("type")), MediaOpsError)
    return cls(str(fields.get("message", "")), **{name: fields.get(name) for name in _CONTEXT})
