"""The error replies: each service has a shape of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.responses import JSONResponse

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.faults import Service

_VIDEO_LIMIT = "rateLimitExceeded"
# The name and the reason of a status, if nothing more exact is known.
_VIDEO = {
    401: ("unauthorized", "authError"),
    403: ("forbidden", "forbidden"),
    404: ("notFound", "notFound"),
    405: ("methodNotAllowed", "methodNotAllowed"),
    429: ("userRateLimitExceeded", _VIDEO_LIMIT),
}
_INVALID_PARAMETERS = {"missing": "missingRequiredParameter", "extra_forbidden": "unexpectedParameter"}
_CLUSTER_TYPES = {401: "security_exception", 403: "security_exception", 429: "rejected_execution_exception"}


class RefusedError(Exception):
    """A request that a service does not grant, with the reply that says so."""

    def __init__(self, status: int, body: Any, challenge: str = "") -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body
        self._challenge = challenge

    def response(self) -> JSONResponse:
        """Return the reply."""
        is_challenge = self._challenge and self.status == HTTPStatus.UNAUTHORIZED
        headers = {"WWW-Authenticate": f'{self._challenge} realm="sandbox"'} if is_challenge else None
        return JSONResponse(self.body, status_code=self.status, headers=headers)


def video_refusal(status: int, message: str, reason: str = "", *, location: str | None = None) -> RefusedError:
    """Return an error of the video platform; ``location`` is the parameter, header or property at fault."""
    usual = ("backendError", "backendError") if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ("badRequest",) * 2
    name, reason_of_status = _VIDEO.get(status, usual)
    if reason == _VIDEO_LIMIT:
        name = "userRateLimitExceeded"
    entry = {"message": message, "domain": "global", "name": name, "reason": reason or reason_of_status}
    if location:
        entry |= {"location": location, "locationType": "header" if location == "Authorization" else "parameter"}
    return RefusedError(status, {"error": {"code": status, "message": message, "errors": [entry]}}, "Bearer")


def token_refusal(status: int, description: str, error: str = "") -> RefusedError:
    """Return an error of a token endpoint (RFC 6749, section 5.2)."""
    is_failure = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    error = error or ("temporarily_unavailable" if is_failure else "invalid_request")
    return RefusedError(status, {"error": error, "error_description": description})


def cluster_refusal(status: int, reason: str, type: str = "") -> RefusedError:
    """Return an error of a search cluster."""
    is_failure = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    usual = "status_exception" if is_failure else "illegal_argument_exception"
    cause = {"type": type or _CLUSTER_TYPES.get(status, usual), "reason": reason}
    return RefusedError(status, {"error": {"root_cause": [cause], **cause}, "status": status}, "Basic")


def books_refusal(status: int, message: str, **more: str) -> RefusedError:
    """Return an error of the book database, with further fields."""
    return RefusedError(status, {"message": message, **more})


_REFUSALS: dict[Service, Callable[[int, str], RefusedError]] = {
    "video": video_refusal,
    "token": token_refusal,
    "cluster": cluster_refusal,
    "books": books_refusal,
}


def refusal_of_status(service: Service, status: int, message: str) -> RefusedError:
    """Return an error of any status in the shape of a service's errors."""
    return _REFUSALS[service](status, message)


def refusal_of_invalid(service: Service, error: Mapping[str, Any]) -> RefusedError:
    """Return the refusal of a request that does not fit its model; ``error`` is the first of pydantic's errors."""
    whole, *rest = error["loc"]
    place, kind = ".".join(map(str, rest)), error["type"]
    message = f"{place or whole}: {error['msg']}"
    if service == "video":
        return video_refusal(400, message, _reason_of_invalid(whole, place, kind), location=place)
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
        return video_refusal(403, "Too many requests in a second.", _VIDEO_LIMIT)
    if service == "token":
        return token_refusal(429, "Too many token requests.", "slow_down")
    if service == "cluster":
        return cluster_refusal(429, "the queue of thread pool [management] is full")
    body = {"errorMessage": "Not Found"} if books_status == HTTPStatus.NOT_FOUND else {"message": "Limit Exceeded"}
    return RefusedError(books_status, body)
