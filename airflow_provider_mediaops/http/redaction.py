"""
Replace credentials by ``***`` in every text that leaves: messages, ``to_dict()``, the connection page.

A service may echo a key as it is, quoted for an address, for JSON or for HTML, or in base64; the case of letters does
not count.

Texts are redacted before they are cut to length, because a cut can leave a part of a secret.

Secrets of fewer than :data:`SHORTEST_SECRET` characters are not replaced: they occur in ordinary words.
"""

from __future__ import annotations

import base64
import html
import re
import string
from collections.abc import Iterable, Iterator
from functools import lru_cache

#: The minimum length of a secret that is replaced, in characters. Airflow's own masker begins at 5.
SHORTEST_SECRET = 4
#: The maximum length of a text, in characters; the rest is cut off.
LONGEST_TEXT = 2_400
# A character of a secret has at most so many when it is quoted, perhaps twice.
_LONGEST_QUOTE = 20
_STARS = "***"
_FIRST_OF_TWO = 0x10000

# No form of quoting changes these.
_NEVER_QUOTED = frozenset(string.ascii_letters + string.digits)
# Base64, for addresses too, as it is or quoted. The characters beside those that depend on the secret alone hold some
# bits of it.
_BASE64 = str.maketrans({"+": "(?:[+-]|%2b)", "/": r"(?:\\?/|_|%2f)"})
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
    return re.compile("|".join((*map(_quoted, secrets), *in_base64)), re.IGNORECASE)


def _quoted(secret: str) -> str:
    """Return a pattern of a secret, each character as it is or quoted."""
    # A run of backslashes at once: in a text of many, each of them could be the begin of each.
    return "".join(map(_quoted_part, re.findall(r"\\+|[^\\]", secret)))


def _quoted_part(part: str) -> str:
    char, count = part[0], len(part)
    if char in _NEVER_QUOTED:
        return char
    # At the end of a secret, nothing of a quoted character is left: quoted forms come first.
    if char == "\\":
        return rf"(?:(?:{_quotes(char)}){{{count}}}|\\{{{count},{8 * count}}})"
    return rf"(?:{_quotes(char)}|\\{{1,8}}{re.escape(char)}|{re.escape(char)})"


def _quotes(char: str) -> str:
    code, in_html = ord(char), html.escape(char)
    # JSON writes a character beyond the first plane, such as an emoji, as two.
    units = (code,) if code < _FIRST_OF_TWO else (0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF))
    entities = [rf"#0{{0,7}}{code};?", rf"#x0{{0,7}}{code:x};?"]
    if in_html != char:
        entities.append(in_html.removeprefix("&"))
    forms = [
        # Percent signs, backslashes and ampersands may be quoted again.
        "".join(f"%(?:25){{0,4}}{byte:02x}" for byte in char.encode("utf-8", "surrogatepass")),
        "".join(rf"\\{{1,8}}u{unit:04x}" for unit in units),
        # Some write an ampersand in JSON by its number.
        rf"(?:&|\\{{1,8}}u0026)(?:amp;){{0,4}}(?:{'|'.join(entities)})",
    ]
    if char == " ":
        forms.append(r"\+")
    return "|".join(forms)


def _base64_cores(secret: str) -> Iterator[str]:
    """Yield patterns of what depends on a secret only in base64, for each offset in a group of three bytes."""
    data = secret.encode("utf-8", "surrogatepass")
    for shift, first in enumerate((0, 2, 3)):
        core = base64.b64encode(bytes(shift) + data).decode("ascii")[first : (shift + len(data)) * 8 // 6]
        yield core.translate(_BASE64)
