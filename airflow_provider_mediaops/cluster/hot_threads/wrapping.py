r"""
Take off the wrapping in which people have hot-threads texts: logs, JSON, web pages, terminals.

A wrapping is looked for only in a text of which something was not understood, and taken off only if more of the text
can be read without it. Every step is linear in the length of the text.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

from airflow_provider_mediaops.cluster.hot_threads.grammar import GROUP_LINE, MARGIN, SAMPLING
from airflow_provider_mediaops.gunzip import inflated

_FIGURES = (
    r"[0-9]{0,6}(?:\.[0-9]{1,6})?(?:% ?(?:\[cpu=|\([0-9])|[kmgtp]?b memory allocated by)"
    r"|[0-9]{0,8}/[0-9]{1,9} snapshots sharing following"
)
#: Where a line of a report begins. The first letter comes first, since the expression skips to it then.
_BEGINNING = rf"[:H0-9-](?:(?<=:):: ?[{{\[]|(?<=H){SAMPLING[1:]}[0-9]|(?<=[0-9-])(?:{_FIGURES}))"
_BEGINS = re.compile(_BEGINNING)
_MARKS = (":::", SAMPLING, "by thread", "snapshots sharing", "[part 1]: ", "(gzip compressed")

# Escaped texts: `"…\n   Hot threads at …"`.
_ESCAPED_BEGINNING = re.compile(rf"\\[nr][ \t#>]*(?:{_BEGINNING})")
_BEGINS_LITERAL = re.compile(rf"[{MARGIN}]*(?:{_BEGINNING})")
_MAY_BE_ESCAPED = re.compile(rf"\\[nr]|^[ \t(\[b]*[\"'][{MARGIN}]*(?:{_BEGINNING})", re.MULTILINE)
_ESCAPE_OR_QUOTE = re.compile(r"\\.|[\"']")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))")
_SHORT_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "0": "\0"}
_MOST_ESCAPES = 3

# One line of a report in each record of a log in JSON, under the names that loggers use.
_FIELD = re.compile(
    r'"(?:log|message|msg|MESSAGE|event|line|text|textPayload|_raw)"[ \t]*:[ \t]*"([^"\\\n]*(?:\\.[^"\\\n]*)*)"'
    r'|^[ \t]*"([^"\\\n]*(?:\\.[^"\\\n]*)*)"[ \t]*(?:,[ \t]*)?\r?$',
    re.MULTILINE,
)
_REST_OF_JSON = re.compile(r'[\s{}\[\],]*|[ \t]*"[^"\n]{1,100}"[ \t]*:.*')

# The lines of Elasticsearch's `ChunkedLoggingStream`.
_CHUNK = re.compile(
    r"^(?P<before>[^\n]{0,2000}?)(?:\[part (?P<number>[0-9]{1,6})\]"
    r"|\(gzip compressed and base64-encoded; for details see [^)\n]{0,300}\)): (?P<data>[A-Za-z0-9+/=]{4,})",
    re.MULTILINE,
)
_LAST_CHUNK = re.compile(
    r"^[^\n]{0,2000}?\(gzip compressed, base64-encoded, and split into [0-9]{1,6} parts[^\n]*\n?", re.MULTILINE
)
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}[0-9.,:Z+-]*|[A-Z][a-z]{2} +[0-9]{1,2} [0-9:]{8}"
)
_MOST_INFLATED = 1 << 26
_STEP = 1024

# Web pages and rich text.
_ESCAPED_SIGNS = re.compile(r"by thread &(?:amp;)?(?:#|apos|quot|lsquo|rsquo)|&(?:amp;)?lt;(?:cl)?init&")
_LINE_TAG = re.compile(r"</?(?:br|p|div|pre|li|tr|table|html|body|head)(?:\s[^<>\n]{0,300})?/?>", re.IGNORECASE)
_TAG = re.compile(r"</?(?:code|span|td|th|b|i|em|strong|font|a|samp|tt)(?:\s[^<>\n]{0,300})?/?>", re.IGNORECASE)
_QUOTES = '‘’‚“”„`´"'  # noqa: RUF001 - the marks that editors make of the plain one
_QUOTED_NAME = re.compile(rf"(by thread )[{_QUOTES}]([^\n]*)[{_QUOTES}]")

# Prefixes of lines.
_LONGEST_PREFIX = 300
_MOST_PREFIXES = 20
# In a prefix whose signs are escaped.
_CHANGING = re.compile(
    r"(?P<second>:[0-9]{2}(?:(?:\\.|,)[0-9]+)?(?![0-9:]))|(?P<number>[0-9]+)|(?P<blank>(?:\\[ \t])+)"
    r"|(?P<day_or_month>\b[A-Z][a-z]{2}\b)"
)
_CHANGES = {
    "second": ":[0-9]{2}(?:[.,][0-9]+)?",
    "number": "[0-9]+",
    "blank": "[ \t]+",
    "day_or_month": "[A-Z][a-z]{2}",
}

# Broken lines.
_FULL_LINES = re.compile(r"[^\n]{40}")
_BLANKS = re.compile(r"(?<! ) {2,}")
# A part of a report behind another one, or a line without its end.
_BROKEN = re.compile(
    rf"[^{MARGIN}\n] (?:{_BEGINNING}|unique snapshot)"
    rf"|^[{MARGIN}]*(?:::: ?[{{\[][^\n]*[^\s}}\]]|{SAMPLING}[^\n]*[^\s:]|[0-9.-]{{1,9}}% ?[\[(][^\n]*[^\s'])[ \t\r]*\n"
    r"|(?:sharing|following(?: [0-9]+)?|\((?:Native|Unknown))[ \t\r]*\n",
    re.MULTILINE,
)
_NARROWEST, _WIDEST = 40, 400
_LINE = re.compile(r"[^\n]+")
_BEGINS_LINE = r"[ \t]{3}|:::|[ \t]*$"
_JOINED_BEGINNING = re.compile(rf" (?={_BEGINNING}|{GROUP_LINE} )")
_JOINED_FRAME = re.compile(r"(?<=\)|[st]) (?=[^\s.(]+\.[^\s(]*\()")


def wrappings(text: str) -> Iterator[tuple[str, Callable[[str], str]]]:
    """
    Yield the name of each wrapping that a text may have, and the step that takes it off.

    A step returns a text without its wrapping as it was.
    """
    if not any(mark in text for mark in _MARKS):
        return
    yield "an escaped text", _unescaped
    yield "records in JSON", _out_of_records
    yield "Elasticsearch's compressed log", _inflated
    yield "signs and tags of a web page", _out_of_html
    yield "a prefix before each line", _without_prefixes
    yield "typographic quotes and blanks", _with_plain_signs
    yield "lines broken by a terminal", _unbroken
    yield "lines broken at blanks", _reflowed


def _unescaped(text: str) -> str:
    for _ in range(_MOST_ESCAPES):
        if not _MAY_BE_ESCAPED.search(text):
            break
        lines = text.split("\n")
        plain = [_line_unescaped(line) for line in lines]
        if plain == lines:
            break
        text = "\n".join(plain)
    return text


def _line_unescaped(line: str) -> str:
    """Return the texts in quotes of a line, or the line itself if they hold no report."""
    if not _BEGINS.search(line):
        return line
    escaped = _ESCAPED_BEGINNING.search(line) is not None
    literals = list(_literals(line)) if escaped or line.lstrip(" \t[(b")[:1] in ('"', "'") else []
    # Loggers keep a message under several names.
    chosen = list(dict.fromkeys(literal for literal in literals if _ESCAPED_BEGINNING.search(literal)))
    if not chosen and sum(_BEGINS_LITERAL.match(literal) is not None for literal in literals) > 1:
        chosen = literals
    if not chosen and escaped:
        chosen = [line]
    return "\n".join(_without_escapes(literal) for literal in chosen) if chosen else line


def _literals(line: str) -> Iterator[str]:
    """Yield the texts between quotes; the last may be cut off."""
    quote, start = "", 0
    for match in _ESCAPE_OR_QUOTE.finditer(line):
        if not quote and len(match[0]) == 1:
            quote, start = match[0], match.end()
        elif quote and match[0] == quote:
            yield line[start : match.start()]
            quote = ""
    if quote:
        yield line[start:]


def _without_escapes(text: str) -> str:
    plain = _ESCAPE.sub(_sign, text)
    # JSON writes a sign beyond 16 bits as two escapes. One of them is left of a text that was cut between them.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _sign(match: re.Match[str]) -> str:
    code, byte, other = match.groups()
    return _SHORT_ESCAPES.get(other, other) if other else chr(int(code or byte, 16))


def _out_of_records(text: str) -> str:
    if sum(_BEGINS.search(found[0]) is not None for found in _FIELD.finditer(text)) < len(("header", "sampling")):
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        if contents := [found[1] or found[2] or "" for found in _FIELD.finditer(line)]:
            # Loggers keep a line under several names.
            lines += map(_without_escapes, dict.fromkeys(contents))
        elif not _REST_OF_JSON.fullmatch(line):
            lines.append(line)
    return "\n".join(lines)


def _inflated(text: str) -> str:
    """Put the messages of Elasticsearch's compressed log in the place of their last part."""
    if "[part " not in text and "(gzip compressed" not in text:
        return text
    streams: dict[str, list[re.Match[str]]] = {}
    messages: list[list[re.Match[str]]] = []
    for match in _CHUNK.finditer(text):
        number, stream = int(match["number"] or 1), _TIME.sub("", match["before"])
        parts = streams.get(stream)
        if number == 1:
            streams[stream] = parts = [match]
            messages.append(parts)
        elif parts is not None and number == len(parts) + 1:
            parts.append(match)
        else:
            # A part is missing: those behind it stay.
            streams.pop(stream, None)
    room = _MOST_INFLATED
    changes: list[tuple[int, int, str]] = []
    for parts in messages:
        plain, is_whole = _inflate("".join(part["data"] for part in parts), room)
        if plain:
            room -= len(plain)
            changes += [(*_line_of(text, part), "") for part in parts[:-1]]
            start, end = _line_of(text, parts[-1])
            # What is damaged stays, and is named as a line that is not understood.
            changes.append((start, end, f"{plain}\n" if is_whole else f"{plain}\n{text[start:end]}"))
    if not changes:
        return text
    changes += [(*match.span(), "") for match in _LAST_CHUNK.finditer(text)]
    pieces, position = [], 0
    for start, end, plain in sorted(changes):
        pieces += [text[position:start], plain]
        position = max(position, end)
    return "".join([*pieces, text[position:]])


def _line_of(text: str, part: re.Match[str]) -> tuple[int, int]:
    return part.start(), text.find("\n", part.end()) + 1 or len(text)


def _inflate(data: str, most: int) -> tuple[str, bool]:
    """Return as much of a message as can be decompressed, and whether that is all."""
    data = data.rstrip("=")
    try:
        packed = base64.b64decode(data[: len(data) - (len(data) % 4 == 1)] + "=" * (-len(data) % 4))
    except binascii.Error:
        return "", False
    plain, is_whole = bytearray(), False
    # A damaged message is read up to the damage.
    with suppress(zlib.error, EOFError):
        for piece in inflated(packed[start : start + _STEP] for start in range(0, len(packed), _STEP)):
            plain += piece[: most - len(plain)]
            if len(plain) == most:
                break
        else:
            is_whole = True
    return plain.decode("utf-8", "surrogateescape"), is_whole


def _out_of_html(text: str) -> str:
    if _LINE_TAG.search(text) or _TAG.search(text):
        text = _TAG.sub("", _LINE_TAG.sub("\n", text))
    for _ in range(_MOST_ESCAPES):
        if not _ESCAPED_SIGNS.search(text):
            break
        text = html.unescape(text)
    return text


def _with_plain_signs(text: str) -> str:
    text = text.replace("\xa0", " ") if "\xa0" in text else text
    return _QUOTED_NAME.sub(r"\1'\2'", text)


def _without_prefixes(text: str) -> str:
    prefixes = [prefix for prefix, _ in _prefixes(text).most_common(_MOST_PREFIXES)]
    if not prefixes:
        return text
    return re.sub(rf"^(?:{'|'.join(sorted(prefixes, key=len, reverse=True))})", "", text, flags=re.MULTILINE)


def _prefixes(text: str) -> Counter[str]:
    """Return the patterns of all that stands before the beginnings of a report's lines, with their numbers."""
    found: Counter[str] = Counter()
    line_end = -1
    for match in _BEGINS.finditer(text):
        if match.start() < line_end:
            continue
        start = text.rfind("\n", 0, match.start()) + 1
        line_end = text.find("\n", match.start())
        line_end = len(text) if line_end < 0 else line_end
        prefix = text[start : match.start()].rstrip()
        # A name's end is the beginning of a line that was broken.
        if prefix.strip(MARGIN) and len(prefix) <= _LONGEST_PREFIX and not prefix.endswith(("'", ")")):
            # Times, numbers and blanks may differ from line to line.
            pattern = _CHANGING.sub(lambda part: _CHANGES[part.lastgroup or ""], re.escape(prefix))
            if pattern in found or len(found) < _LONGEST_PREFIX:
                found[pattern] += 1
    return found


def _unbroken(text: str) -> str:
    """Join lines that end at the edge of a terminal with those that follow."""
    if not _FULL_LINES.search(text):
        return text
    plain = text.replace("\r\n", "\n")
    # One line at a time: a list of all takes several times the memory of the text.
    width = max(line.end() - line.start() for line in _LINE.finditer(plain))
    if not _NARROWEST <= width <= _WIDEST:
        return text
    joined = re.sub(rf"^([^\n]{{{width}}})\n(?!{_BEGINS_LINE})", r"\1", plain, flags=re.MULTILINE)
    # Where lines were broken at blanks, those of full width are only some of the broken ones.
    return text if len(joined) == len(plain) or _BROKEN.search(joined) else joined


def _reflowed(text: str) -> str:
    """Join all lines, and break them where a report's lines begin."""
    if not _BROKEN.search(text):
        return text
    joined = " ".join(filter(None, (line.strip(MARGIN) for line in text.split("\n"))))
    joined = _BLANKS.sub(" ", joined)
    return _JOINED_FRAME.sub("\n", _JOINED_BEGINNING.sub("\n", joined)) + "\n"
