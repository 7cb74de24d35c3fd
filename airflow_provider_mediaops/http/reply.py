"""Parse a reply's body: a JSON object, or an error of any known shape."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.http.redaction import redacted
from airflow_provider_mediaops.json_text import parse_json

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response

_MAX_LINE_LENGTH = 300
_EXCERPT_BYTES = 64 * 1024
# Tags that may stand without a closing one.
_UNCLOSED = r"<(?:p|br|hr|div|pre|h[1-6]|li|td|tr|html|head|body)\b"
# What only a text with markup has: `<empty>` alone is a word of the service.
_MARKUP = re.compile(rf"</[a-z]|/>|<[!?]|{_UNCLOSED}", re.IGNORECASE)
_TAG = re.compile(rf"(?P<unclosed>{_UNCLOSED}[^<>]*>)|<(?P<word>[\w-]+)>|<[a-z/!?][^<>]*>", re.IGNORECASE)
# Blanks, control characters, and characters that are not shown, such as marks of direction.
_BLANKS = re.compile("[\\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")
# Tags within a sentence.
_INLINE = re.compile(r"</?(?:a|b|i|u|em|strong|span|code|font|small|tt)\b", re.IGNORECASE)
_WORD = re.compile(r"[\w.:-]{1,100}")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """The parts of an error body."""

    reason: str | None = None  # the service's most exact code, for example ``videoNotFound``
    name: str | None = None  # the broader class, for example ``notFound``
    message: str | None = None  # for people, as plain text


def read_json(response: Response) -> dict[str, Any]:
    """
    Parse a reply that must be a JSON object, whatever its content type says.

    Raise InvalidReplyError if the body is empty, HTML, cut short or another kind of value, or holds a number that is
    too large for a float, such as 1e999.
    """
    if not response.body.strip():
        raise InvalidReplyError("The reply is empty where a JSON object was expected.")
    try:
        value = parse_json(response.body.removeprefix(_BYTE_ORDER_MARK))
    except ValueError as error:
        kind = "a web page" if looks_like_html(response) else "not valid JSON"
        raise InvalidReplyError(f"The reply is {kind} where a JSON object was expected ({error}).") from None
    if not isinstance(value, dict):
        raise InvalidReplyError(f"The reply is a JSON {type(value).__name__} where an object was expected.")
    return value


def looks_like_html(response: Response) -> bool:
    """Return whether the body is a web page, for example the login page of a proxy."""
    start = response.body[:512].removeprefix(_BYTE_ORDER_MARK).lstrip().lower()
    return start.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))


def excerpt(response: Response, secrets: Iterable[str] = ()) -> str:
    """Return the start of the body as one line of plain text, redacted."""
    # Enough of it to find a secret that is cut.
    return plain_text(response.body[:_EXCERPT_BYTES].decode("utf-8", errors="replace"), secrets)


def plain_text(text: str, secrets: Iterable[str] = (), longest: int = _MAX_LINE_LENGTH) -> str:
    """Return a text of a reply for a message: redacted, without markup, blanks folded, and cut to ``longest``."""
    shown = redacted(text, secrets)
    if _MARKUP.search(shown):
        shown = _TAG.sub(_in_place_of, shown)
    # Again, for a secret that comes to light here.
    folded = redacted(_BLANKS.sub(" ", html.unescape(shown)).strip(), secrets)
    return folded if len(folded) <= longest else folded[: longest - 1] + "…"


def _in_place_of(tag: re.Match[str]) -> str:
    if (word := tag["word"]) and f"</{word}>".lower() not in tag.string.lower():
        return tag[0]
    # The words of two cells or paragraphs are two words.
    return "" if _INLINE.match(tag[0]) else " "


def read_error(response: Response, secrets: Iterable[str] = ()) -> ErrorDetails:
    """
    Find reason, name and message in an error body of any shape that the services are known to send, redacted.

    All are None for a body that is empty, HTML, cut short or unknown.
    """
    try:
        body = read_json(response)
    except InvalidReplyError:
        return ErrorDetails()
    # The documents do not show the form of an error: its parts may stand below error, or at the top.
    error = body.get("error")
    levels = [error, body] if isinstance(error, Mapping) else [body]
    name = _first(_names(level) for level in levels)
    reason = _first(_reasons(level) for level in levels) or _word(body, "error") or name
    message = _first(_messages(level) for level in levels)
    if not (reason or message):
        message = _first_text(body, "error")
    return ErrorDetails(*(text and plain_text(text, secrets) for text in (reason, name, message)))


def is_of_search_cluster(response: Response, details: ErrorDetails) -> bool:
    """Return whether an error has the form of Elasticsearch's and OpenSearch's: then a base address is mistaken."""
    named = (details.reason or "").endswith("_exception") or " for uri [" in (details.message or "")
    return named or "x-elastic-product" in response.headers


def _first(found: Iterable[Iterator[str | None]]) -> str | None:
    return next(filter(None, chain.from_iterable(found)), None)


def _reasons(level: Mapping[str, Any]) -> Iterator[str | None]:
    # Google: errors[].reason, then details[].reason. Elasticsearch: root_cause[].type, then type, beside which the
    # reason is a sentence.
    for item in (*_objects(level, "errors"), *_objects(level, "details")):
        yield _word(item, "reason")
    for item in (*_objects(level, "root_cause"), level):
        yield _word(item, "type")
    yield _word(level, "reason")


def _names(level: Mapping[str, Any]) -> Iterator[str | None]:
    for item in (*_objects(level, "errors"), level):
        yield _word(item, "name")
    yield _word(level, "status")


def _messages(level: Mapping[str, Any]) -> Iterator[str | None]:
    # Amazon's policies write it with a capital letter.
    yield _first_text(level, "message", "Message", "errorMessage", "error_message", "error_description", "detail")
    for item in _objects(level, "errors"):
        yield _first_text(item, "message")
    for item in (*_objects(level, "root_cause"), level):
        if _word(item, "type"):
            yield _first_text(item, "reason")


def _objects(level: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = level.get(name)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _first_text(fields: Mapping[str, Any], *names: str) -> str | None:
    return next((text for name in names if isinstance(text := fields.get(name), str) and text), None)


def _word(fields: Mapping[str, Any], name: str) -> str | None:
    text = _first_text(fields, name)
    return text if text and _WORD.fullmatch(text) else None
