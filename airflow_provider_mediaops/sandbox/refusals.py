"""The error replies of each service."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from fastapi.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.sandbox.services import Service

#: The two ways in which the book database says that the limit is reached.
LimitReply = Literal["404", "429"]

_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
# The names of errors, and the reasons of those that the switchboard arms.
_VIDEO_NAMES = {400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "notFound", 405: "methodNotAllowed"}
_VIDEO_LIMIT = {"name": "userRateLimitExceeded", "reason": "rateLimitExceeded"}
_VIDEO_REASONS = {401: "authError", 403: "forbidden", 404: "notFound"}
_CLUSTER_TYPES = {401: "security_exception", 403: "security_exception", 429: "rejected_execution_exception"}
_FIRST_SERVER_ERROR = 500


class RefusedError(Exception):
    """
    A request that a service does not grant, with the reply that says so.

    :param status: the HTTP status.
    :param body: the reply's JSON.
    :param headers: further headers of the reply.
    """

    def __init__(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body
        self.headers = dict(headers or {})

    def response(self) -> JSONResponse:
        """Return the reply."""
        return JSONResponse(self.body, status_code=self.status, headers=self.headers)


def video_refusal(
    status: int, reason: str, message: str, *, name: str | None = None, location: str | None = None
) -> RefusedError:
    """
    Return an error of the video platform.

    :param status: the HTTP status.
    :param reason: the reason, such as ``videoNotFound``.
    :param message: the message for people.
    :param name: the name of the error, such as ``notFound``; by default the one that goes with the status.
    :param location: the parameter, header or property at fault.
    :returns: the refusal, to be raised.
    """
    name = name or _VIDEO_NAMES.get(status, "backendError" if status >= _FIRST_SERVER_ERROR else "badRequest")
    domain = "usageLimits" if reason == _VIDEO_LIMIT["reason"] else "global"
    entry = {"message": message, "domain": domain, "name": name, "reason": reason}
    if location:
        entry |= {"location": location, "locationType": "header" if location == "Authorization" else "parameter"}
    error: dict[str, Any] = {"code": status, "message": message, "errors": [entry]}
    if status in _STATUS_NAMES:
        error["status"] = _STATUS_NAMES[status]
    headers = {"WWW-Authenticate": 'Bearer realm="sandbox"'} if status == HTTPStatus.UNAUTHORIZED else None
    return RefusedError(status, {"error": error}, headers)


def video_limit_refusal(message: str, *, status: int = 403) -> RefusedError:
    """
    Return the video platform's error for an exceeded rate or quota.

    :param message: the message for people; that of a quota says "per day".
    :param status: the HTTP status.
    :returns: the refusal, to be raised.
    """
    return video_refusal(status, message=message, **_VIDEO_LIMIT)


def token_refusal(status: int, error: str, description: str) -> RefusedError:
    """
    Return an error of a token endpoint (RFC 6749, section 5.2).

    :param status: the HTTP status.
    :param error: the error's code, such as ``invalid_grant``.
    :param description: the message for people.
    :returns: the refusal, to be raised.
    """
    return RefusedError(status, {"error": error, "error_description": description})


def cluster_refusal(status: int, type: str, reason: str) -> RefusedError:
    """
    Return an error of a search cluster.

    :param status: the HTTP status.
    :param type: the name of the error, such as ``illegal_argument_exception``.
    :param reason: the message for people.
    :returns: the refusal, to be raised.
    """
    cause = {"type": type, "reason": reason}
    body = {"error": {"root_cause": [cause], **cause}, "status": status}
    headers = {"WWW-Authenticate": 'Basic realm="sandbox"'} if status == HTTPStatus.UNAUTHORIZED else None
    return RefusedError(status, body, headers)


def books_refusal(status: int, message: str, **more: str) -> RefusedError:
    """
    Return an error of the book database.

    :param status: the HTTP status.
    :param message: the message for people.
    :param more: further fields of the reply.
    :returns: the refusal, to be raised.
    """
    return RefusedError(status, {"message": message, **more})


def refusal_of_status(service: Service, status: int) -> RefusedError:
    """
    Return an error of any status in the shape of a service's errors.

    :param service: the service.
    :param status: the HTTP status.
    :returns: the refusal.
    """
    message = f"{HTTPStatus(status).phrase} (a fault armed at the sandbox's switchboard)"
    failed = status >= _FIRST_SERVER_ERROR
    if service == "video" and status == HTTPStatus.TOO_MANY_REQUESTS:
        return video_limit_refusal(message, status=status)
    if service == "video":
        return video_refusal(status, _VIDEO_REASONS.get(status, "backendError" if failed else "badRequest"), message)
    if service == "token":
        return token_refusal(status, "temporarily_unavailable" if failed else "invalid_request", message)
    if service == "cluster":
        type_ = _CLUSTER_TYPES.get(status, "status_exception" if failed else "illegal_argument_exception")
        return cluster_refusal(status, type_, message)
    return books_refusal(status, message)


def limit_refusal(service: Service, *, books_reply: LimitReply) -> RefusedError:
    """
    Return a service's error for a limit that is reached.

    :param service: the service.
    :param books_reply: which of the book database's two replies to send.
    :returns: the refusal.
    """
    if service == "video":
        return video_limit_refusal("Too many requests in a second.")
    if service == "token":
        return token_refusal(429, "slow_down", "Too many token requests.")
    if service == "cluster":
        return cluster_refusal(429, "rejected_execution_exception", "the queue of thread pool [management] is full")
    if books_reply == "404":
        return RefusedError(404, {"errorMessage": "Not Found"})
    return RefusedError(429, {"message": "Limit Exceeded"})


def expired_refusal(service: Service) -> RefusedError:
    """
    Return a service's error for an expired credential.

    :param service: the service.
    :returns: the refusal, always 401.
    """
    if service == "video":
        return video_refusal(401, "authError", "The access token is not valid now.", location="Authorization")
    if service == "token":
        return token_refusal(401, "invalid_client", "The client's registration has ended.")
    if service == "cluster":
        return cluster_refusal(401, "security_exception", "the token is expired")
    return books_refusal(401, "The key is not active.")
