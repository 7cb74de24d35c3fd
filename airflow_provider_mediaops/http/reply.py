"""Reading a reply's body: JSON that may be anything else, and the many shapes of an error."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.json_text import parse_json

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response

_EXCERPT_LENGTH = 300
_TAG = re.compile(r"<[^<>]*>")
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_WORD = re.compile(r"[\w.:-]{1,100}")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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
    if not response.body.strip():
        raise InvalidReplyError("The reply is empty where a JSON object was expected.")
    try:
        value = parse_json(response.body.removeprefix(_BYTE_ORDER_MARK))
    except ValueError as error:
        kind = "a web page" if looks_like_html(response) else "no valid JSON"
        raise InvalidReplyError(f"The reply is {kind} where a JSON object was expected ({error}).") from None
    if not isinstance(value, dict):
        raise InvalidReplyError(f"The reply is a JSON {type(value).__name__} where an object was expected.")
    return value


def looks_like_html(response: Response) -> bool:
    """Say whether the body is a web page, for example the login page of a proxy."""
    start = response.body[:512].removeprefix(_BYTE_ORDER_MARK).lstrip().lower()
    return start.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def excerpt(response: Response) -> str:
    """Give the start of the body as one line of plain text."""
    return plain_text(response.body[: 8 * _EXCERPT_LENGTH].decode("utf-8", errors="replace"))


def plain_text(text: str) -> str:
    """Strip markup, fold blanks and control characters, and cut to what fits a log line."""
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
    word = _word(body, "error")
    message = _first_text(body, "message", "errorMessage", "error_message", "error_description", "detail")
    if not (word or message):
        message = _first_text(body, "error")
    return ErrorDetails(reason=word, message=plain_text(message) if message else None)


def _nested(error: Mapping[str, Any]) -> ErrorDetails:
    # Google: errors[].reason, then details[].reason, then status. Elasticsearch: root_cause[].type, then type.
    errors, details, causes = (_objects(error.get(name)) for name in ("errors", "details", "root_cause"))
    reasons = (*(_word(item, "reason") for item in (*errors, *details)), *(_word(item, "type") for item in causes))
    reason = next(filter(None, reasons), None) or _word(error, "type")
    name = _word(error, "status") or next(filter(None, (_word(item, "name") for item in errors)), None)
    messages = (_first_text(error, "message"), *(_first_text(item, "reason") for item in (*causes, error)))
    message = next(filter(None, messages), None)
    return ErrorDetails(reason or name, name, plain_text(message) if message else None)


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _first_text(fields: Mapping[str, Any], *names: str) -> str | None:
    return next((text for name in names if isinstance(text := fields.get(name), str) and text), None)


def _word(fields: Mapping[str, Any], name: str) -> str | None:
    text = _first_text(fields, name)
    return text if text and _WORD.fullmatch(text) else None
