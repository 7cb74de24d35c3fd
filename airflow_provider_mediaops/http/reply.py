"""Reading a reply's body: JSON that may be anything else, and the many shapes of an error."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import InvalidReplyError

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response

_EXCERPT_LENGTH = 300
_TAG = re.compile(r"<[^<>]*>")
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """
    What an error body says.

    :param reason: the service's most exact word, for example ``videoNotFound``.
    :param name: the broader class it gives, for example ``notFound``.
    :param message: the sentence for people, as plain text.
    """

    reason: str | None = None
    name: str | None = None
    message: str | None = None


def read_json(response: Response) -> dict[str, Any]:
    """
    Read a reply that must be a JSON object, whatever its content type says.

    :param response: the reply.
    :returns: the object.
    :raises InvalidReplyError: where the body is empty, HTML, cut short or another kind of value.
    """
    import pydantic_core

    if not response.body.strip():
        raise InvalidReplyError("The reply is empty where a JSON object was expected.")
    try:
        value = pydantic_core.from_json(response.body)
    except ValueError as error:
        kind = "a web page" if looks_like_html(response) else "no valid JSON"
        raise InvalidReplyError(f"The reply is {kind} where a JSON object was expected ({error}).") from None
    if not isinstance(value, dict):
        raise InvalidReplyError(f"The reply is a JSON {type(value).__name__} where an object was expected.")
    return value


def looks_like_html(response: Response) -> bool:
    """Say whether the body is a web page, for example the login page of a proxy."""
    start = response.body[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return start.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def excerpt(response: Response) -> str:
    """Give the start of the body as one line of plain text."""
    return plain_text(response.body[: 8 * _EXCERPT_LENGTH].decode("utf-8", errors="replace"))


def plain_text(text: str) -> str:
    """Strip markup, fold blanks and cut to what fits a log line."""
    folded = _BLANKS.sub(" ", html.unescape(_TAG.sub("", text))).strip()
    return folded if len(folded) <= _EXCERPT_LENGTH else folded[: _EXCERPT_LENGTH - 1] + "…"


def read_error(response: Response) -> ErrorDetails:
    """
    Find reason, name and message in an error body of any shape that the services are known to send.

    :param response: a reply that refuses.
    :returns: what was found; all None for a body that is empty, HTML, cut short or of an unknown shape.
    """
    try:
        body = read_json(response)
    except InvalidReplyError:
        return ErrorDetails()
    error = body.get("error")
    if isinstance(error, Mapping):
        return _nested(error)
    message = _first_text(body, "message", "errorMessage", "error_message", "error_description", "detail")
    word = error if isinstance(error, str) else None
    return ErrorDetails(reason=word, message=plain_text(message) if message else None)


def _nested(error: Mapping[str, Any]) -> ErrorDetails:
    # Google: errors[0].reason, then details[0].reason, then status. Elasticsearch: root_cause[0].type, then type.
    first = _first_object(error.get("errors"))
    cause = _first_object(error.get("root_cause"))
    reason = (
        _first_text(first, "reason")
        or _first_text(_first_object(error.get("details")), "reason")
        or _first_text(cause, "type")
        or _first_text(error, "type")
    )
    name = _first_text(error, "status") or _first_text(first, "name")
    message = _first_text(error, "message") or _first_text(cause, "reason") or _first_text(error, "reason")
    return ErrorDetails(reason or name, name, plain_text(message) if message else None)


def _first_object(value: object) -> Mapping[str, Any]:
    if isinstance(value, list):
        return next((item for item in value if isinstance(item, Mapping)), {})
    return {}


def _first_text(fields: Mapping[str, Any], *names: str) -> str | None:
    return next((text for name in names if isinstance(text := fields.get(name), str) and text), None)
