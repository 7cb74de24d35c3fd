"""The shape of a query: its JSON with ``?`` in the place of each literal, so that requests of one kind are alike."""

from __future__ import annotations

import json
import re
from typing import Any

#: The longest text of a query that is read, in characters.
MAX_QUERY_CHARACTERS = 65_536

_SOURCE = "source["
_LITERAL = "?"
_CUT = "…"
# Nested deeper, a query is a fault, and its shape is cut there.
_MAX_DEPTH = 60
_LONGEST_KEY = 100
_LONGEST_SHAPE = 2_000
# A text without its closing quotation mark is the last one of a query that was cut.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


def query_of(description: str) -> str | None:
    """
    Return the query in the description of a coordinating task.

    :param description: such as ``indices[a], search_type[QUERY_THEN_FETCH], source[{"size":0}]``.
    :returns: the JSON as it stands there, cut at :data:`MAX_QUERY_CHARACTERS`; None if there is none.
    """
    start = description.find(f"{_SOURCE}{{")
    if start < 0:
        return None
    text = description[start + len(_SOURCE) :][:MAX_QUERY_CHARACTERS]
    return text.removesuffix("]")


def shape_of(query: str) -> str:
    """
    Return the shape of a query.

    Each literal becomes ``?``. A list has each different element once. Keys are kept and sorted: they are names of
    fields, clauses and aggregations. Texts of scripts are literals.

    :param query: JSON; it may be cut anywhere, or be no JSON at all.
    :returns: compact JSON, cut at 2,000 characters; if the query or the shape was cut, it ends with ``…``.
    """
    reader = _Reader(query[:MAX_QUERY_CHARACTERS])
    shape = json.dumps(_sorted(reader.read()), separators=(",", ":"), ensure_ascii=False)
    if len(shape) > _LONGEST_SHAPE:
        return shape[: _LONGEST_SHAPE - 1] + _CUT
    return shape if reader.is_whole else shape + _CUT


class _Reader:
    """
    Reads JSON as far as it goes, without recursion.

    :param text: the JSON.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._top: list[Any] = []
        # The objects and lists that are not closed yet, the innermost last.
        self._open: list[Any] = [self._top]
        self._key: str | None = None
        # Brackets that were opened below the maximum depth and are not closed yet.
        self._too_deep = 0
        #: Whether every object and list was closed.
        self.is_whole = False

    def read(self) -> Any:
        """Return objects and lists, with ``?`` for each literal."""
        for match in _TOKEN.finditer(self._text):
            part = match[0]
            if part in "}]":
                self._close()
                if len(self._open) == 1 and not self._too_deep:
                    self.is_whole = True
                    break
            elif part in "{[":
                self._begin({} if part == "{" else [])
            elif part == ",":
                self._key = None
            elif part != ":" and not self._too_deep:
                self._word(part)
        return self._top[0] if self._top else _LITERAL

    def _begin(self, value: Any) -> None:
        if self._too_deep or len(self._open) > _MAX_DEPTH:
            if not self._too_deep:
                self._add(_CUT)
            self._too_deep += 1
            return
        self._add(value)
        self._open.append(value)

    def _close(self) -> None:
        self._key = None
        if self._too_deep:
            self._too_deep -= 1
        elif len(self._open) > 1:
            self._open.pop()

    def _word(self, word: str) -> None:
        if not isinstance(self._open[-1], dict) or self._key is not None:
            self._add(_LITERAL)
        elif word.startswith('"'):
            # Words without quotation marks are no key, whatever this text is.
            key = word.strip('"')
            self._key = key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + _CUT

    def _add(self, value: Any) -> None:
        parent = self._open[-1]
        if isinstance(parent, list):
            parent.append(value)
        else:
            parent[self._key or ""] = value
        self._key = None


def _sorted(value: Any) -> Any:
    """Sort keys, and keep one of equal elements of a list; a query is at most some levels deep."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        elements = [_sorted(element) for element in value]
        by_text = {json.dumps(element): element for element in elements}
        return [by_text[text] for text in sorted(by_text)]
    return value
