"""The error replies of each service."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.responses import JSONResponse

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.faults import Service

_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
}
_VIDEO_NAMES = {400: "badRequest", 401: "unauthorized", 403: "forbidden", 404: "notFound", 405: "methodNotAllowed"}
_VIDEO_LIMIT = "rateLimitExceeded"
_VIDEO_REASONS = {401: "authError", 403: "forbidden", 404: "notFound", 405: "methodNotAllowed", 429: _VIDEO_LIMIT}
_INVALID_PARAMETERS = {"missing": "missingRequiredParameter", "extra_forbidden": "unexpectedParameter"}
_CLUSTER_TYPES = {401: "security_exception", 403: "security_exception", 429: "rejected_execution_exception"}
_FIRST_SERVER_ERROR = 500


class RefusedError(Exception):
    """A request that a service does not grant, with the reply that says so."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body
        self.headers = dict(headers or {})

    def response(self) -> JSONResponse:
        """Return the reply."""
        return JSONResponse(self.body, status_code=self.status, headers=self.headers)


def video_refusal(status: int, reason: str, message: str, *, location: str | None = None) -> RefusedError:
    """Return an error of the video platform; ``location`` is the parameter, header or property at fault."""
    is_limit, is_failure = reason == _VIDEO_LIMIT, status >= _FIRST_SERVER_ERROR
    name = "userRateLimitExceeded" if is_limit else _VIDEO_NAMES.get(status, "backendError" if is_failure else reason)
    entry = {"message": message, "domain": "usageLimits" if is_limit else "global", "name": name, "reason": reason}
    if location:
        entry |= {"location": location, "locationType": "header" if location == "Authorization" else "parameter"}
    error: dict[str, Any] = {"code": status, "message": message, "errors": [entry]}
    if status in _STATUS_NAMES:
        error["status"] = _STATUS_NAMES[status]
    headers = {"WWW-Authenticate": 'Bearer realm="sandbox"'} if status == HTTPStatus.UNAUTHORIZED else None
    return RefusedError(status, {"error": error}, headers)


def token_refusal(status: int, error: str, description: str) -> RefusedError:
    """Return an error of a token endpoint (RFC 6749, section 5.2)."""
    return RefusedError(status, {"error": error, "error_description": description})


def cluster_refusal(status: int, type: str, reason: str) -> RefusedError:
    """Return an error of a search cluster."""
    cause = {"type": type, "reason": reason}
    headers = {"WWW-Authenticate": 'Basic realm="sandbox"'} if status == HTTPStatus.UNAUTHORIZED else None
    return RefusedError(status, {"error": {"root_cause": [cause], **cause}, "status": status}, headers)


def books_refusal(status: int, message: str, **more: str) -> RefusedError:
    """Return an error of the book database, with further fields."""
    return RefusedError(status, {"message": message, **more})


def refusal_of_status(service: Service, status: int, message: str) -> RefusedError:
    """Return an error of any status in the shape of a service's errors."""
    is_failure = status >= _FIRST_SERVER_ERROR
    if service == "video":
        return video_refusal(
            status, _VIDEO_REASONS.get(status, "backendError" if is_failure else "badRequest"), message
        )
    if service == "token":
        return token_refusal(status, "temporarily_unavailable" if is_failure else "invalid_request", message)
    if service == "cluster":
        type_ = _CLUSTER_TYPES.get(status, "status_exception" if is_failure else "illegal_argument_exception")
        return cluster_refusal(status, type_, message)
    return books_refusal(status, message)


def refusal_of_invalid(service: Service, error: Mapping[str, Any]) -> RefusedError:
    """Return the refusal of a request that does not fit its model; ``error`` is the first of pydantic's errors."""
    whole, *rest = error["loc"]
    place, kind = ".".join(map(str, rest)), error["type"]
    message = f"{place or whole}: {error['msg']}"
    if service == "video":
        return video_refusal(400, _reason_of_invalid(whole, place, kind), message, location=place)
    if service == "cluster" and kind == "extra_forbidden":
        message = f"request contains unrecognized parameter: [{place}]"
    return refusal_of_status(service, 400, message)


def _reason_of_invalid(whole: str, place: str, kind: str) -> str:
    if whole == "body":
        return "parseError" if kind == "json_invalid" else "invalid"
    if place.startswith("part."):
        return "unknownPart"
    return _INVALID_PARAMETERS.get(kind, "invalidParameter")


def limit_refusal(service: Service, *, books_status: int) -> RefusedError:
    """Return a service's error for a limit that is reached; the book database answers with status 404 or 429."""
    if service == "video":
        return video_refusal(403, _VIDEO_LIMIT, "Too many requests in a second.")
    if service == "token":
        return token_refusal(429, "slow_down", "Too many token requests.")
    if service == "cluster":
        return cluster_refusal(429, "rejected_execution_exception", "the queue of thread pool [management] is full")
    body = {"errorMessage": "Not Found"} if books_status == HTTPStatus.NOT_FOUND else {"message": "Limit Exceeded"}
    return RefusedError(books_status, body)
