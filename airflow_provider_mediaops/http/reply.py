"""Parse a reply: a JSON object, or an error of any known shape, and how long it asks to wait."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import LONGEST_RETRY_AFTER_SECONDS, InvalidReplyError
from airflow_provider_mediaops.http.redaction import redacted
from airflow_provider_mediaops.json_text import parse_json

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response

_MAX_LINE_LENGTH = 300
_EXCERPT_BYTES = 64 * 1024
# Of the errors that one error lists, as many are read.
_MAX_LISTED = 20
# 64 MB of `{},` are 2 GB of dictionaries. A reply of 1,000 books, or the statistics of 1,000 nodes, holds fewer values.
_MAX_VALUES = 2_000_000
# What only a text with markup has: `<empty>` alone is a word of the service.
_MARKUP = re.compile(r"</[a-z]|/>|<[!?]|<(?:p|br|hr|html|body)\b", re.IGNORECASE)
_TAG = re.compile(r"<[a-z/!?][^<>]*>", re.IGNORECASE)
# Blanks, control characters, and characters that are not shown, such as marks of direction.
_BLANKS = re.compile("[\\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")
# Tags within a sentence.
_INLINE = re.compile(r"</?(?:a|b|i|u|em|strong|span|code|font|small|tt)\b", re.IGNORECASE)
_WORD = re.compile(r"[\w.:-]{1,100}")
_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?")
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

    Raise InvalidReplyError if the body is empty, HTML, cut short or another kind of value, or holds too many values, or
    a number that is too large for a float, such as 1e999.
    """
    if not response.body.strip():
        raise InvalidReplyError("The reply is empty where a JSON object was expected.")
    if sum(map(response.body.count, (b",", b"{", b"["))) > _MAX_VALUES:
        raise InvalidReplyError(f"The reply holds more than {_MAX_VALUES:,} values.")
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
        # The words of two cells or paragraphs are two words.
        shown = _TAG.sub(lambda tag: "" if _INLINE.match(tag[0]) else " ", shown)
    # Again, for a secret that comes to light here.
    folded = redacted(_BLANKS.sub(" ", html.unescape(shown)).strip(), secrets)
    return folded if len(folded) <= longest else folded[: longest - 1] + "…"


def read_error(response: Response, secrets: Iterable[str] = ()) -> ErrorDetails:
    """
    Find reason, name and message in an error body of any shape that the services are known to send, redacted.

    All are None for a body that is empty, HTML, cut short or unknown.
    """
    try:
        body = read_json(response)
    except InvalidReplyError:
        return ErrorDetails()
    # The documents do not show the form of an error: its parts may stand below error, or at the top; in a list, or not.
    error = body.get("error")
    levels = [error, body] if isinstance(error, Mapping) else [body]
    parts = [part for level in levels for part in (*_listed(level), level)]
    name = _first(_word(part, "name", "status") for part in parts)
    reason = _first(_word(part, "type", "reason") for part in parts) or _word(body, "error") or name
    message = _first(_message(part) for part in parts)
    if not (reason or message):
        message = _text(body, "error")
    return ErrorDetails(*(text and plain_text(text[:_EXCERPT_BYTES], secrets) for text in (reason, name, message)))


def is_of_search_cluster(response: Response, details: ErrorDetails) -> bool:
    """Return whether an error has the form of Elasticsearch's and OpenSearch's: then a base address is mistaken."""
    named = (details.reason or "").endswith("_exception") or " for uri [" in (details.message or "")
    return named or "x-elastic-product" in response.headers


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """
    Parse ``Retry-After``, in seconds or as a date (RFC 9110, section 10.2.3); None if it is absent or malformed.

    A date is compared with the reply's own ``Date``, if present, so that a difference between clocks does no harm.
    The result is a day at most.
    """
    value = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(value):
        return min(float(value), LONGEST_RETRY_AFTER_SECONDS)
    until = _http_date(value)
    if until is None:
        return None
    sent = _http_date(headers.get("date", "")) or now
    return min(max(0.0, (until - sent).total_seconds()), LONGEST_RETRY_AFTER_SECONDS)


def _http_date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=timezone.utc)


def _listed(level: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    # Google: errors, then details. Elasticsearch: root_cause.
    for name in ("errors", "details", "root_cause"):
        value = level.get(name)
        listed = value[:_MAX_LISTED] if isinstance(value, list) else ()
        yield from (item for item in listed if isinstance(item, Mapping))


def _message(part: Mapping[str, Any]) -> str | None:
    # Amazon's policies write it with a capital letter.
    words = _text(part, "message", "Message", "errorMessage", "error_message", "error_description", "detail")
    # Elasticsearch: beside a type, the reason is a sentence.
    return words or (_text(part, "reason") if _word(part, "type") else None)


def _first(found: Iterable[str | None]) -> str | None:
    return next(filter(None, found), None)


def _text(fields: Mapping[str, Any], *names: str) -> str | None:
    return next((text for name in names if isinstance(text := fields.get(name), str) and text), None)


def _word(fields: Mapping[str, Any], *names: str) -> str | None:
    return _first(text for name in names if (text := _text(fields, name)) and _WORD.fullmatch(text))
