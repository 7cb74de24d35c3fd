"""
Replace credentials by ``***`` in every text that leaves: messages, ``to_dict()``, the connection page, library logs.

A service may echo a key in disguise: escaped for JSON, HTML or an address, several of them in turn, in base64, or
split by blanks and markup. So the text is decoded in every order of the decoders, up to a fixed depth. Each decoded
character keeps the position of its original. If a decoded text holds a secret, its original is replaced.

Texts are redacted before they are cut to length, because a cut can leave a part of a secret.

Secrets of fewer than :data:`SHORTEST_SECRET` characters are not replaced: they occur in ordinary words.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import re
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from airflow_provider_mediaops.http.exchange import Request

#: The minimum length of a secret that is replaced, in characters. Airflow's own masker begins at 5.
SHORTEST_SECRET = 4
#: The maximum length of a text, in characters; the rest is cut off.
LONGEST_TEXT = 2_400
_LONGEST_LOG_LINE = 16_384
_STARS = "***"
# The depth of nested forms and the number of decoded texts; both bound the time for a hostile text.
_DEPTH, _MAX_VIEWS = 4, 32
_ROUNDS = 3
# The maximum number of digits in an entity; int() raises a ValueError for thousands of them.
_MAX_DIGITS = 7

#: Blanks, control characters, and characters that are not shown, such as marks of direction.
BLANKS = re.compile("[\\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")
#: A tag of HTML.
TAG = re.compile(r"<[^<>]*>")
_ENTITY = re.compile(r"&(?:#[xX][0-9a-fA-F]+;?|#[0-9]+;?|[A-Za-z][A-Za-z0-9]{1,31};?)")
_PLUS = re.compile(r"\+")
_URLSAFE = str.maketrans("-_", "+/")
_BASE64 = re.compile(r"[A-Za-z0-9+/=]")


def _byte_escapes(sign: str) -> str:
    # One character in UTF-8, or else one byte.
    more = f"{sign}[89abAB][0-9a-fA-F]"
    return (
        f"{sign}[cdCD][0-9a-fA-F]{more}|{sign}[eE][0-9a-fA-F](?:{more}){{2}}|{sign}[fF][0-7](?:{more}){{3}}"
        f"|{sign}[0-9a-fA-F]{{2}}"
    )


_JSON_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}"
    rf"|{_byte_escapes(re.escape(chr(92)) + 'x')}|\\[/\"'\\bfnrt]"
)
_PERCENT = re.compile(_byte_escapes("%"))
_ANY_ESCAPE = re.compile(f"{_JSON_ESCAPE.pattern}|{_PERCENT.pattern}|{_ENTITY.pattern}")
# At the end of a text that is cut, a tag may be incomplete, or an escape of up to so many characters.
_CUT_TAG = re.compile(r"<[^<>]*\Z")
_CUT_ESCAPE = 16


def unescape_html(text: str) -> str:
    """
    Replace HTML entities by their characters.

    :param text: the text.
    :returns: the text as a browser shows it; a number of any length is read without an error.
    """
    return _ENTITY.sub(lambda found: _decoded_entity(found[0]), text)


def _decoded_entity(entity: str) -> str:
    if entity[1] != "#":
        return html.unescape(entity)
    digits = entity[2:].rstrip(";")
    base, digits = (16, digits[1:]) if digits[0] in "xX" else (10, digits)
    digits = digits.lstrip("0") or "0"
    return html.unescape(f"&#{int(digits, base)};") if len(digits) <= _MAX_DIGITS else "\ufffd"


def _decoded_bytes(escapes: str) -> str:
    data = bytes.fromhex(re.sub(r"%|\\x", "", escapes))
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _decoded(escape: str) -> str:
    if escape[0] == "&":
        return _decoded_entity(escape)
    if escape[0] == "%" or escape[1] == "x":
        return _decoded_bytes(escape)
    if escape[1] == "u":
        units = bytes.fromhex(escape.replace("\\u", ""))
        return units.decode("utf-16-be", errors="surrogatepass")
    # Line ends and tabs can split a secret, as blanks do.
    return escape[1] if escape[1] in "/\"'\\" else " "


@dataclass(frozen=True, slots=True)
class _View:
    """
    A decoded text.

    :param text: the text.
    :param starts: the position in the original where each character begins.
    :param ends: the position where it ends.
    """

    text: str
    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, text: str) -> _View:
        return cls(text, list(range(len(text))), list(range(1, len(text) + 1)))

    def joins(self, at: int) -> bool:
        """Return whether the characters before and at a position stand side by side in the original, too."""
        return 0 < at < len(self.text) and self.ends[at - 1] == self.starts[at]

    def rewritten(self, pattern: re.Pattern[str], decode: Callable[[str], str]) -> _View:
        pieces: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        at = 0
        for found in pattern.finditer(self.text):
            decoded = decode(found[0])
            if decoded == found[0]:
                continue
            begin, end = found.span()
            pieces += self.text[at:begin], decoded
            starts += self.starts[at:begin] + [self.starts[begin]] * len(decoded)
            ends += self.ends[at:begin] + [self.ends[end - 1]] * len(decoded)
            at = end
        if not pieces:
            return self
        return _View("".join((*pieces, self.text[at:])), starts + self.starts[at:], ends + self.ends[at:])


# The first decodes all escapes at once, for secrets whose characters are escaped by different means.
_DECODERS: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (
    (_ANY_ESCAPE, _decoded),
    (_JSON_ESCAPE, _decoded),
    (_ENTITY, _decoded),
    (_PERCENT, _decoded),
    (TAG, lambda _: ""),
    # A blank may split an escape, or end it.
    (BLANKS, lambda _: ""),
    # In forms, a plus stands for a blank.
    (_PLUS, lambda _: ""),
)


def _views(text: str) -> Iterator[_View]:
    """Yield the text and every text that it can be decoded to."""
    layer = [_View.of(text)]
    seen = {layer[0].text}
    yield layer[0]
    for _ in range(_DEPTH):
        following: list[_View] = []
        for view in layer:
            for pattern, decode in _DECODERS:
                decoded = view.rewritten(pattern, decode)
                if decoded.text in seen:
                    continue
                seen.add(decoded.text)
                following.append(decoded)
                yield decoded
                if len(seen) >= _MAX_VIEWS:
                    return
        layer = following


@dataclass(frozen=True, slots=True)
class _Needles:
    """
    The forms of a secret in a decoded text.

    :param plain: the secret, and its own decoded forms: the text may be decoded once too often.
    :param without_plus: the same without ``+``: in forms it stands for a blank, and blanks may split a secret.
    :param encoded: the secret in base64, independent of the text before and behind it.
    """

    plain: tuple[str, ...]
    without_plus: tuple[str, ...]
    encoded: tuple[str, ...]


@lru_cache(maxsize=64)
def _needles(secret: str) -> _Needles:
    # A header's bytes are read as Latin-1.
    as_header = secret.encode("utf-8", "surrogatepass").decode("latin-1")
    plain = {BLANKS.sub("", view.text) for form in (secret, as_header) for view in _views(form)}
    without_plus = {form.replace("+", "") for form in plain}
    in_json = json.dumps(secret, ensure_ascii=False)[1:-1]
    forms = {secret, in_json, json.dumps(secret)[1:-1], in_json.replace("/", "\\/"), html.escape(secret)}
    forms |= {quote(form.encode("utf-8", "surrogatepass"), safe="") for form in (secret, in_json)}
    forms.add(quote_plus(secret.encode("utf-8", "surrogatepass")))
    encoded = {core for form in forms for core in _base64_cores(form.encode("utf-8", "surrogatepass"))}
    return _Needles(_long(plain), _long(without_plus), _long(encoded))


def _long(forms: Iterable[str]) -> tuple[str, ...]:
    return tuple(form for form in forms if len(form) >= SHORTEST_SECRET)


def _base64_cores(data: bytes) -> Iterator[str]:
    """Yield the base64 characters that depend on these bytes only, for each offset in a group of three bytes."""
    for shift, first in enumerate((0, 2, 3)):
        encoded = base64.b64encode(bytes(shift) + data).decode("ascii")
        yield encoded[first : (shift + len(data)) * 8 // 6]


def redacted(text: str, secrets: Iterable[str], *, longest: int = LONGEST_TEXT) -> str:
    """
    Replace secrets in a text, in any form.

    :param text: the text, not yet cut.
    :param secrets: the secrets.
    :param longest: the number of characters of the text that are kept. If the cut divides a secret, its start goes too.
    :returns: the text, with ``***`` for each secret.
    """
    known = tuple(_needles(secret) for secret in set(secrets) if len(secret) >= SHORTEST_SECRET)
    cut = len(text) > longest
    text = text[:longest]
    if cut:
        text = _CUT_TAG.sub("", text)
    if not known:
        return text
    for _ in range(_ROUNDS):
        spans = sorted(_found(text, known, cut=cut))
        if not spans:
            return text
        text = _replaced(text, spans)
    return _STARS if any(_found(text, known, cut=cut)) else text


def _replaced(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces: list[str] = []
    at = 0
    for begin, end in spans:
        if begin >= at and (begin > at or not pieces):
            pieces += text[at:begin], _STARS
        at = max(at, end)
    return "".join((*pieces, text[at:]))


def _found(text: str, known: Sequence[_Needles], *, cut: bool) -> Iterator[tuple[int, int]]:
    """Yield the positions of secrets in a text, as begin and end."""
    searched: set[str] = set()
    has_plus = False
    for decoded in _views(text):
        has_plus = has_plus or "+" in decoded.text
        view = decoded.rewritten(BLANKS, lambda _: "")
        if view.text in searched:
            continue
        searched.add(view.text)
        in_base64 = view.text.translate(_URLSAFE)
        shorter = view.rewritten(_PLUS, lambda _: "")
        for needles in known:
            for needle in needles.plain:
                yield from _places(view, view.text, needle, cut=cut)
            for needle in needles.encoded:
                yield from _places(view, in_base64, needle, cut=cut, around=3)
            for needle in needles.without_plus if has_plus else ():
                yield from _places(shorter, shorter.text, needle, cut=cut)


def _places(view: _View, text: str, needle: str, *, cut: bool, around: int = 0) -> Iterator[tuple[int, int]]:
    at = text.find(needle)
    while at >= 0:
        begin, end = at, at + len(needle)
        # In base64, the characters beside the core hold some bits of it.
        while begin > at - around and view.joins(begin) and _BASE64.fullmatch(text[begin - 1]):
            begin -= 1
        while end < at + len(needle) + around and view.joins(end) and _BASE64.fullmatch(text[end]):
            end += 1
        yield view.starts[begin], view.ends[end - 1]
        at = text.find(needle, at + len(needle))
    if cut and (at := _begun_at_end(text, needle)) >= 0:
        yield view.starts[at], view.ends[-1]


def _begun_at_end(text: str, needle: str) -> int:
    """Return where the end of a cut text begins to repeat a needle; -1 if it does not."""
    at = text.find(needle[:SHORTEST_SECRET], max(len(text) - len(needle) - _CUT_ESCAPE, 0))
    while at >= 0:
        last = max(len(text) - _CUT_ESCAPE, at + SHORTEST_SECRET)
        if any(needle.startswith(text[at:end]) for end in range(last, len(text) + 1)):
            break
        at = text.find(needle[:SHORTEST_SECRET], at + 1)
    return at


_LOGGERS = ("connection", "connectionpool", "poolmanager", "response", "util.retry")
_hidden: ContextVar[Request | None] = ContextVar("hidden", default=None)


@contextmanager
def hiding_credentials(request: Request) -> Iterator[None]:
    """
    Replace a request's credentials in the log records of urllib3 while it is sent.

    :param request: the request that this thread or task sends.
    """
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
