"""Parse a reply's body: a JSON object, or an error of any known shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.http.redaction import BLANKS, LONGEST_TEXT, TAG, redacted, unescape_html
from airflow_provider_mediaops.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_mediaops.http.exchange import Response

_MAX_LINE_LENGTH = 300
_WORD = re.compile(r"[\w.:-]{1,100}")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """
    The parts of an error body.

    :param reason: the service's most exact code, for example ``videoNotFound``.
    :param name: the broader class, for example ``notFound``.
    :param message: the message for people, as plain text.
    """

    reason: str | None = None
    name: str | None = None
    message: str | None = None


def read_json(response: Response) -> dict[str, Any]:
    """
    Parse a reply that must be a JSON object, whatever its content type says.

    :param response: the reply.
    :returns: the object.
    :raises InvalidReplyError: if the body is empty, HTML, cut short or another kind of value.
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
    """Return whether the body is a web page, for example the login page of a proxy."""
    start = response.body[:512].removeprefix(_BYTE_ORDER_MARK).lstrip().lower()
    return start.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def excerpt(response: Response, secrets: Iterable[str] = ()) -> str:
    """
    Return the start of the body as one line of plain text.

    :param response: the reply.
    :param secrets: the credentials that it may echo.
    :returns: the line, redacted.
    """
    # One character more than redaction reads, so that it knows of the cut. A character has up to four bytes.
    return plain_text(response.body[: 4 * LONGEST_TEXT + 4].decode("utf-8", errors="replace"), secrets)


def plain_text(text: str, secrets: Iterable[str] = (), longest: int = _MAX_LINE_LENGTH) -> str:
    """
    Return a text of a reply for a message: redacted, without markup, blanks and control characters folded, and cut.

    :param text: the text.
    :param secrets: the credentials that it may echo.
    :param longest: the maximum length of the result, in characters.
    :returns: one line.
    """
    shown = redacted(text, secrets)
    folded = BLANKS.sub(" ", unescape_html(TAG.sub("", shown))).strip()
    return folded if len(folded) <= longest else folded[: longest - 1] + "…"


def read_error(response: Response, secrets: Iterable[str] = ()) -> ErrorDetails:
    """
    Find reason, name and message in an error body of any shape that the services are known to send.

    :param response: a reply that refuses.
    :param secrets: the credentials that it may echo.
    :returns: the parts that were found, redacted; all None for a body that is empty, HTML, cut short or unknown.
    """
    try:
        body = read_json(response)
    except InvalidReplyError:
        return ErrorDetails()
    error = body.get("error")
    if isinstance(error, Mapping):
        reason, name, message = _nested(error)
    else:
        reason, name = _word(body, "error"), None
        message = _first_text(body, "message", "errorMessage", "error_message", "error_description", "detail")
        if not (reason or message):
            message = _first_text(body, "error")
    shown = [text and plain_text(text, secrets) for text in (reason, name, message)]
    return ErrorDetails(*shown)


def _nested(error: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
    # Google: errors[].reason, then details[].reason, then status. Elasticsearch: root_cause[].type, then type.
    errors, details, causes = (_objects(error.get(name)) for name in ("errors", "details", "root_cause"))
    reasons = (*(_word(item, "reason") for item in (*errors, *details)), *(_word(item, "type") for item in causes))
    reason = next(filter(None, reasons), None) or _word(error, "type")
    name = _word(error, "status") or next(filter(None, (_word(item, "name") for item in errors)), None)
    messages = (_first_text(error, "message"), *(_first_text(item, "reason") for item in (*causes, error)))
    message = next(filter(None, messages), None)
    return reason or name, name, message


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _first_text(fields: Mapping[str, Any], *names: str) -> str | None:
    return next((text for name in names if isinstance(text := fields.get(name), str) and text), None)


def _word(fields: Mapping[str, Any], name: str) -> str | None:
    text = _first_text(fields, name)
    return text if text and _WORD.fullmatch(text) else None
