"""The shape of a query: the query with ``?`` in the place of each literal, so that requests of one kind are alike."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

#: The longest text of a query that is read, in characters.
MAX_QUERY_CHARACTERS = 65_536

#: What stands before a query that is no JSON: literals are written in another way in each language.
ESQL_MARK, SQL_MARK = "ES|QL: ", "SQL: "

_LITERAL = "?"
_CUT = "…"
_QUOTED_LITERAL, _QUOTED_CUT = f'"{_LITERAL}"', f'"{_CUT}"'
# Stands for what is nested too deep: a literal may have any value.
_DEEPER = object()
# Descriptions have texts with line ends as they are.
_DECODER = json.JSONDecoder(strict=False)
_ENCODER = json.JSONEncoder(ensure_ascii=False)
# Nested deeper, a query is a fault, and its shape is cut there.
_MAX_DEPTH = 60
_LONGEST_KEY = 100
_LONGEST_SHAPE = 2_000
# A text without its closing quotation mark is the last one of a query that was cut.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
# In ES|QL and SQL: a name is kept whole, with its digits. A text ends with its closing mark, or where a query was cut.
# In SQL a mark within a text is doubled, in ES|QL it has a backslash before it.
_NAME = r"`[^`]*`|[^\W\d][\w.@]*"
_NUMBER = r"\d[\w.]*"
_BLOCK_COMMENT = r"/\*.*?(?:\*/|\Z)"
_SQL_PART = re.compile(
    rf"(?P<name>{_NAME})|'[^']*(?:'|\Z)|\"[^\"]*(?:\"|\Z)|{_NUMBER}|(?P<comment>--[^\n]*|{_BLOCK_COMMENT})", re.DOTALL
)
_ESQL_PART = re.compile(
    rf'(?P<name>{_NAME})|"""(?:.*?"""|.*\Z)|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|{_NUMBER}'
    rf"|(?P<comment>//[^\n]*|{_BLOCK_COMMENT})",
    re.DOTALL,
)
_BLANKS = re.compile(r"\s+")
_LITERALS = re.compile(r"\?(?:[\s,?]*\?)?")


def shape_of(query: str) -> str:
    """
    Return the shape of a query.

    Each literal becomes ``?``. A list has each different element once. Keys are kept and sorted: they are names of
    fields, clauses and aggregations. Texts of scripts are literals.

    In ES|QL and SQL, names of fields and indices, keywords and operators are kept; comments are not.

    :param query: JSON, or ES|QL or SQL after its mark; it may be cut anywhere, or be something else.
    :returns: compact JSON, or the text in one line, cut at 2,000 characters; if the query or the shape was cut, it ends
        with ``…``.
    """
    mark = next((mark for mark in (ESQL_MARK, SQL_MARK) if query.startswith(mark)), "")
    if mark:
        text = query.removeprefix(mark)
        pattern = _ESQL_PART if mark == ESQL_MARK else _SQL_PART
        shape, is_whole = f"{mark}{_text_shape(text, pattern)}", len(text) < MAX_QUERY_CHARACTERS
    else:
        value, is_whole = _decoded(query)
        shape = _text_of(value)
    if len(shape) > _LONGEST_SHAPE:
        return shape[: _LONGEST_SHAPE - 1] + _CUT
    return shape if is_whole else shape + _CUT


def _text_shape(query: str, pattern: re.Pattern[str]) -> str:
    """Return ES|QL or SQL in one line, with ``?`` for each literal."""
    text = pattern.sub(lambda part: part["name"] or (" " if part["comment"] else _LITERAL), query)
    return _LITERALS.sub(_LITERAL, _BLANKS.sub(" ", text)).strip()


def _decoded(text: str) -> tuple[Any, bool]:
    """Return the value of JSON, and whether it is whole; what follows it is left out."""
    # In C, which takes a quarter of the time: a query may have thousands of clauses.
    with suppress(ValueError, RecursionError):
        return _DECODER.raw_decode(text)[0], True
    reader = _Reader(text)
    return reader.read(), reader.is_whole


class _Reader:
    """
    Reads JSON that was cut, or is none, as far as it goes and without recursion.

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
                self._add(_DEEPER)
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
            self._key = _key_of(word)

    def _add(self, value: Any) -> None:
        parent = self._open[-1]
        if isinstance(parent, list):
            parent.append(value)
        else:
            parent[self._key or ""] = value
        self._key = None


def _key_of(word: str) -> str:
    """Return the text in quotation marks; with its escapes as they stand if it was cut within one."""
    text = word[1:].removesuffix('"')
    if "\\" in text:
        with suppress(ValueError):
            return str(_DECODER.decode(f'"{text}"'))
    return text


def _text_of(value: Any, depth: int = 0) -> str:
    """Return a value as compact JSON, with ``?`` for each literal; a list has one of equal elements."""
    if depth == _MAX_DEPTH and isinstance(value, (dict, list)):
        return _QUOTED_CUT
    if isinstance(value, dict):
        return f"{{{','.join([f'{_name_of(key)}:{_text_of(value[key], depth + 1)}' for key in sorted(value)])}}}"
    if isinstance(value, list):
        return f"[{','.join(sorted({_text_of(element, depth + 1) for element in value}))}]"
    return _QUOTED_CUT if value is _DEEPER else _QUOTED_LITERAL


def _name_of(key: str) -> str:
    return _ENCODER.encode(key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + _CUT)
