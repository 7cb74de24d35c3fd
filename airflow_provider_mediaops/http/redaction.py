"""
Replace credentials by ``***`` in every text that leaves: messages, ``to_dict()``, the connection page, library logs.

A service may echo a key as it is, quoted for an address, for JSON or for HTML, or in base64.

Texts are redacted before they are cut to length, because a cut can leave a part of a secret.

Secrets of fewer than :data:`SHORTEST_SECRET` characters are not replaced: they occur in ordinary words.
"""

from __future__ import annotations

import base64
import html.entities
import logging
import re
import string
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_mediaops.http.exchange import Request

#: The minimum length of a secret that is replaced, in characters. Airflow's own masker begins at 5.
SHORTEST_SECRET = 4
#: The maximum length of a text, in characters; the rest is cut off.
LONGEST_TEXT = 2_400
# A character of a secret has at most so many when it is quoted, perhaps twice.
_LONGEST_QUOTE = 20
_LONGEST_LOG_LINE = 16_384
_STARS = "***"

# No form of quoting changes these.
_NEVER_QUOTED = frozenset(string.ascii_letters + string.digits)
_FIRST_OF_TWO = 0x10000
_SHORT_QUOTES = {"\n": "n", "\r": "r", "\t": "t"}
# Base64, for addresses too, as it is or quoted. The characters beside those that depend on the secret alone hold some
# bits of it.
_BASE64 = str.maketrans({"+": "(?:[+-]|%2[bB])", "/": r"(?:\\?/|_|%2[fF])"})
_BESIDE_BASE64 = "[A-Za-z0-9+/=_-]{0,3}"


def redacted(text: str, secrets: Iterable[str], *, longest: int = LONGEST_TEXT) -> str:
    """Replace secrets in a text that is not yet cut, and cut it. If the cut divides a secret, its start goes too."""
    # Of two that begin alike, the longer one is found.
    known = tuple(sorted({secret for secret in secrets if len(secret) >= SHORTEST_SECRET}, key=lambda s: (-len(s), s)))
    if not known:
        return text[:longest]
    pieces: list[str] = []
    at = 0
    for found in _pattern(known).finditer(text[: longest + _LONGEST_QUOTE * len(known[0])]):
        if found.start() >= longest:
            break
        pieces += text[at : found.start()], _STARS
        at = found.end()
    return "".join((*pieces, text[at:longest]))


@lru_cache(maxsize=64)
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str]:
    in_base64 = (f"{_BESIDE_BASE64}{core}{_BESIDE_BASE64}" for secret in secrets for core in _base64_cores(secret))
    return re.compile("|".join((*map(_quoted, secrets), *in_base64)))


def _quoted(secret: str) -> str:
    """Return a pattern of a secret, each character as it is or quoted."""
    # A run of backslashes at once: in a text of many, each of them could be the begin of each.
    return "".join(map(_quoted_part, re.findall(r"\\+|[^\\]", secret)))


def _quoted_part(part: str) -> str:
    char, count = part[0], len(part)
    if char in _NEVER_QUOTED:
        return re.escape(char)
    # At the end of a secret, nothing of a quoted character is left: quoted forms come first.
    if char == "\\":
        return rf"(?:(?:{_quotes(char)}){{{count}}}|\\{{{count},{8 * count}}})"
    return f"(?:{_quotes(char)}|{re.escape(char)})"


def _quotes(char: str) -> str:
    code = ord(char)
    names = sorted((name for name, text in html.entities.html5.items() if text == char), key=len, reverse=True)
    entities = [rf"#0{{0,7}}{code};?", rf"#[xX]0{{0,7}}(?i:{code:x});?", *names]
    # JSON writes a character beyond the first plane as two.
    units = (code,) if code < _FIRST_OF_TWO else (0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF))
    forms = [
        # Percent signs, backslashes and ampersands may be quoted again.
        "".join(f"%(?:25){{0,4}}(?i:{byte:02x})" for byte in char.encode("utf-8", "surrogatepass")),
        "".join(rf"\\{{1,8}}u(?i:{unit:04x})" for unit in units),
        # Some write an ampersand in JSON by its number.
        rf"(?:&|\\{{1,8}}u0026)(?:amp;){{0,4}}(?:{'|'.join(entities)})",
    ]
    if char <= "\xff":
        forms.append(rf"\\{{1,8}}x(?i:{code:02x})")
    if char in "\"'/-":
        forms.append(r"\\{1,8}" + char)
    if char in _SHORT_QUOTES:
        forms.append(rf"\\{{1,8}}{_SHORT_QUOTES[char]}")
    if char == " ":
        forms.append(r"\+")
    return "|".join(forms)


def _base64_cores(secret: str) -> Iterator[str]:
    """Yield patterns of what depends on a secret only in base64, for each offset in a group of three bytes."""
    data = secret.encode("utf-8", "surrogatepass")
    for shift, first in enumerate((0, 2, 3)):
        core = base64.b64encode(bytes(shift) + data).decode("ascii")[first : (shift + len(data)) * 8 // 6]
        yield core.translate(_BASE64)


_LOGGERS = ("connection", "connectionpool", "poolmanager", "response", "util.retry")
_hidden: ContextVar[Request | None] = ContextVar("hidden", default=None)


@contextmanager
def hiding_credentials(request: Request) -> Iterator[None]:
    """Replace a request's credentials in the log records of urllib3 while it is sent."""
    before = _hidden.set(request)
    try:
        yield
    finally:
        _hidden.reset(before)


class _WithoutCredentials(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        request = _hidden.get()
        if request is None or not (request.secrets or request.secret_params):
            return True
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 logging drops a record that it cannot format; the request must go on
            return False
        record.msg, record.args = _without(message, request), ()
        if record.exc_info and record.exc_info[1]:
            record.exc_text = _without(logging.Formatter().formatException(record.exc_info), request)
            record.exc_info = None
        return True


def _without(text: str, request: Request) -> str:
    secrets = (*request.secrets, *(value for _, value in request.secret_params))
    if names := [re.escape(name) for name, _ in request.secret_params]:
        # By its name as well: a parameter's value may be short.
        text = re.sub(rf"(?<=[?&])({'|'.join(names)})=[^&#\s\"']*", rf"\1={_STARS}", text)
    return redacted(text, secrets, longest=_LONGEST_LOG_LINE)


for _name in _LOGGERS:
    logging.getLogger(f"urllib3.{_name}").addFilter(_WithoutCredentials())
