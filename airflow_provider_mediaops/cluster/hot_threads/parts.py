"""
The parts of a hot-threads text: how each begins, and how a node's and a thread's own lines are read.

`PARTS` is the grammar of the text. One match after the other covers it to the last character, at the speed of the
expression: a stack, or a page that is not a report, takes a few matches. Lines in the servers' form are matched apart
from lines that only begin that way (`odd_…`). Only the latter are read one by one, to describe their faults.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from airflow_provider_mediaops.cluster.hot_threads.grammar import (
    BLANKS,
    END,
    FRAME,
    GROUP_LINE,
    HEADER,
    HEADER_START,
    MARGIN,
    SAMPLING,
    SAMPLING_LINE,
    THREAD_LINE,
    THREAD_NAME,
    THREAD_START,
    content_of,
    is_whole_sampling,
    is_whole_thread,
    read_sampling,
    read_usage,
    sampling_of,
    usage_of,
)
from airflow_provider_mediaops.cluster.hot_threads.headers import (
    BRACES,
    BRACKETS,
    header_of,
    is_whole_header,
    read_header,
)

UNKNOWN = "not a line of a hot-threads report"
OUTSIDE = "a stack frame outside a stack"
_NOT_OF_A_NODE = {"other": UNKNOWN, "frames": OUTSIDE, "group": "a stack without a thread"}
# What Elasticsearch on FreeBSD says instead.
_NO_SUPPORT = "not supported"

# How many lines one match may cover: each costs the expression memory until the match ends.
_RUN = 100

# Into how many more lines people and terminals are known to break one.
_MOST_CONTINUATIONS = 3

_BELOW = rf"{END}\n[{MARGIN}\n]*"
# Elasticsearch before 1.5 has no line on the sampling, and brackets.
_HEADER = rf"(?P<header>{BRACES}(?={_BELOW}{SAMPLING})|{BRACKETS})"
_NODE = rf"{HEADER}[{BLANKS}]*{_HEADER}(?:{_BELOW}{SAMPLING_LINE})?{END}"
_THREAD = THREAD_LINE + END

# The start of a part is tried only if its first letter matches.
_START = rf"(?:(?=[:Hu0-9NI-])(?:{HEADER_START}|{SAMPLING}|{GROUP_LINE}{END}|{THREAD_START})|{FRAME}{END})"


def _uncaptured(form: str) -> str:
    """Return the same form without its groups, which cost time."""
    return re.sub(r"\(\?P<\w+>", "(?:", form)


_FORMS = {
    "group": GROUP_LINE + END,
    "thread": _uncaptured(_THREAD),
    "frames": rf"{FRAME}{END}(?:\n[{MARGIN}\n]*{FRAME}{END}){{0,{_RUN}}}",
    "odd_thread": rf"{THREAD_START}[^\n]*",
    "node": _uncaptured(_NODE),
    "odd_node": rf"{HEADER_START}[^\n]*",
    "sampling": rf"{SAMPLING}[^\n]*",
    "other": rf"[^\n]+(?:\n(?![{MARGIN}]*{_START})[^\n]*){{0,{_RUN}}}",
    "blank": r"(?=\n|\Z)",
}
#: Whole lines of one form, which is the name of the group that matched, with the blank lines that follow.
PARTS = re.compile(
    rf"[{MARGIN}]*(?:{'|'.join(f'(?P<{name}>{form})' for name, form in _FORMS.items())})"
    rf"[{BLANKS}]*(?:\n(?:[{MARGIN}\n]*\n)?|\Z)"
)
#: The forms `node` and `thread` with a group for each value, for `header_of`, `sampling_of` and `usage_of`.
NODE = re.compile(rf"[{MARGIN}]*{_NODE}")
THREAD = re.compile(rf"[{MARGIN}]*{_THREAD}")
#: How the source of a node with a header begins.
HEADER_LINE = re.compile(rf"[{MARGIN}]*{HEADER_START}")

Remark = Callable[[int, int, str], None]
"""Records lines that are not understood: their start and end in the text, and the reason."""


def read_node(source: str, remark: Remark) -> dict[str, Any]:
    """Read the lines from a node's header, or from the place of a missing one, to the first thread."""
    return _NodeReader(source, remark).read()


class _NodeReader:
    """Reads a node's lines one form after the other; each method returns the offset of the next lines."""

    def __init__(self, source: str, remark: Remark) -> None:
        self._source = source
        self._remark = remark
        self._header: dict[str, Any] = {}
        self._header_text: str | None = None
        self._header_end = 0
        self._sampling: dict[str, Any] = {}
        self._failure: str | None = None

    def read(self) -> dict[str, Any]:
        end = 0
        while (part := PARTS.match(self._source, end)) and part.end() > end:
            end = self._take(part, part.lastgroup)
        header = self._header_text or ""
        if header.startswith("{") and header.endswith("}") and not self._is_answered():
            self._remark(0, self._header_end, "no 'Hot threads at' line follows this node's header")
        return {**self._header, **self._sampling, "failure": self._failure}

    def _is_answered(self) -> bool:
        return bool(self._sampling or self._failure)

    def _take(self, part: re.Match[str], form: str | None) -> int:
        if form == "node" and (match := NODE.match(self._source, part.start())):
            self._header, self._header_text, self._header_end = header_of(match), match["header"], part.end()
            self._sampling = sampling_of(match)
            return part.end()
        if form == "odd_node":
            return self._take_header(part.start())
        if form == "sampling":
            return self._take_sampling(part.start())
        if form == "other" and self._header_text is not None and not self._is_answered() and _NO_SUPPORT in part[0]:
            return self._take_failure(part.start())
        if form != "blank":
            self._remark(*part.span(), _NOT_OF_A_NODE[form or "other"])
        return part.end()

    def _take_header(self, start: int) -> int:
        content, self._header_end = mend(self._source, start, is_whole_header)
        self._header_text = content.removeprefix(HEADER).strip()
        self._header, reason = read_header(self._header_text)
        if reason:
            self._remark(start, self._header_end, reason)
        return self._header_end

    def _take_sampling(self, start: int) -> int:
        content, end = mend(self._source, start, is_whole_sampling)
        if self._sampling:
            self._remark(start, end, "a second 'Hot threads at' line")
            return end
        self._sampling, reason = read_sampling(content)
        if reason:
            self._remark(start, end, reason)
        return end

    def _take_failure(self, start: int) -> int:
        line = self._source.rfind("\n", 0, self._source.index(_NO_SUPPORT, start)) + 1
        end = _line_end(self._source, line)
        self._failure = content_of(self._source[line:end])
        if line > start:
            self._remark(start, line, UNKNOWN)
        return end


def read_thread(source: str, section: str | None, remark: Remark) -> dict[str, Any]:
    """Read the lines from a thread's own to its first group."""
    if match := THREAD.match(source):
        usage, end = usage_of(match, section), match.end()
    else:
        content, end = mend(source, 0, is_whole_thread)
        usage, reason = read_usage(content, section)
        if reason:
            remark(0, end, reason)
    for part in PARTS.finditer(source, end):
        if part.lastgroup != "blank":
            remark(*part.span(), UNKNOWN if part.lastgroup == "other" else OUTSIDE)
    return usage


def mend(text: str, start: int, is_complete: Callable[[str], bool]) -> tuple[str, int]:
    """
    Join the lines into which a line was broken, if that makes it complete; else the first line stays alone.

    Return the line's content, and the offset of the next line.
    """
    end = _line_end(text, start)
    content = alone = content_of(text[start:end])
    alone_end = end
    for _ in range(_MOST_CONTINUATIONS):
        if is_complete(content):
            break
        start, end = end, _line_end(text, end)
        following = content_of(text[start:end])
        if not following or not _continues(following):
            return alone, alone_end
        # A break inside a thread's name may be the name's own; any other was a blank.
        content += ("\n" if THREAD_NAME in content else " ") + following
    return (content, end) if is_complete(content) else (alone, alone_end)


def _continues(content: str) -> bool:
    part = PARTS.match(content)
    return part is not None and part.lastgroup == "other"


def _line_end(text: str, start: int) -> int:
    return text.find("\n", start) + 1 or len(text)
