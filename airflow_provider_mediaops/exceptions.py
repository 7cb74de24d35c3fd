"""
The errors of this provider: one tree, split by what the caller should do about them.

An error travels from a trigger to its task as plain values (:meth:`MediaOpsError.to_dict`). Every subclass registers
itself, so it comes back as the class that it was, wherever that is declared.
"""

from __future__ import annotations

from typing import Any, ClassVar

#: The maximum pause for a service's ``Retry-After``: a day.
LONGEST_RETRY_AFTER_SECONDS = 86_400.0

_CONTEXT = ("service", "method", "path", "status", "reason", "retry_after", "excerpt")


class InvalidArgumentError(ValueError):
    """
    Raised for an argument that can never work: a task with it fails at once, without retries.

    A ``ValueError`` of another kind, such as a JSON parser's, follows the task's own retries. This is no
    :class:`MediaOpsError`, because no service was asked.
    """


class TaskStoppedError(BaseException):
    """
    Raised to end a task that Airflow stops: it was marked or cleared, or its worker ends.

    This is not an ``Exception``, so that a handler of a service's errors does not take it for one of them.

    :param sent: whether any part of a request may have reached the service whose reply is missing now.
    """

    def __init__(self, *, sent: bool = False) -> None:
        super().__init__(
            "Airflow stopped the task: it was marked or cleared, or its worker ends. "
            + ("A request was under way; its reply is not known." if sent else "Nothing more was sent.")
        )
        self.sent = sent


class MediaOpsError(Exception):
    """
    A call to a service failed.

    :param message: what happened, to what, and what to do about it; free of secrets.
    :param service: the service's name, for example ``video platform``.
    :param method: the HTTP method of the request.
    :param path: the path of the request, without its query.
    :param status: the HTTP status of the reply; None if there was no reply.
    :param reason: the service's own word for the error, for example ``quotaExceeded``.
    :param retry_after: the seconds that the service asked to wait before another try.
    :param excerpt: the start of the reply's body, as plain text.
    """

    #: Whether the same request can succeed later with nothing changed by anyone.
    temporary: ClassVar[bool] = False
    _by_name: ClassVar[dict[str, type[MediaOpsError]]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        # The first of a name keeps it: another package's class of the same name does not take its place.
        MediaOpsError._by_name.setdefault(cls.__name__, cls)

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
        Return the error as plain values, as a trigger event carries it.

        :returns: the class's name under ``type``, those of its base classes under ``bases``, and every field that is
            set.
        """
        known = {name: value for name, value in self.context().items() if value is not None}
        bases = [cls.__name__ for cls in type(self).__mro__[1:] if issubclass(cls, MediaOpsError)]
        return {"type": type(self).__name__, "bases": bases, "message": self.message, **known}

    def context(self) -> dict[str, Any]:
        """
        Return the fields beside the message, to make another error of the same request.

        :returns: the keyword arguments of the constructor.
        """
        return {name: getattr(self, name) for name in _CONTEXT}

    def __reduce__(self) -> tuple[Any, ...]:
        return error_from_dict, (self.to_dict(),)


class PermanentError(MediaOpsError):
    """A retry will fail too, until somebody changes something."""


class TemporaryError(MediaOpsError):
    """A retry may succeed."""

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
    """The thing that the request names does not exist."""


class UncertainDeliveryError(PermanentError):
    """A write was sent and its reply is not known: it may or may not have happened."""


class InvalidReplyError(PermanentError):
    """The reply is not as the service documents it."""


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


class StorageError(TemporaryError):
    """A file could not be read or written: an ``OSError`` of the triggerer, as its task raises it."""


class DestinationInUseError(TemporaryError):
    """Another task, or another attempt of this one, is writing the same file at this moment."""


class DestinationReplacedError(TemporaryError):
    """Somebody else has published the file since this attempt began."""


def error_from_dict(fields: dict[str, Any]) -> MediaOpsError:
    """
    Rebuild the typed error that :meth:`MediaOpsError.to_dict` described.

    :param fields: the result of ``to_dict``, perhaps of another version of this package.
    :returns: an error of the same class. If this process has not loaded that class, of its nearest base class.
    """
    bases = fields.get("bases")
    names = (fields.get("type"), *(bases if isinstance(bases, (list, tuple)) else ()))
    known = (MediaOpsError._by_name.get(str(name)) for name in names)  # noqa: SLF001 the registry is this module's
    cls = next(filter(None, known), MediaOpsError)
    return cls(str(fields.get("message", "")), **{name: fields.get(name) for name in _CONTEXT})
