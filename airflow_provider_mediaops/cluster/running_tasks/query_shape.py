"""The shape of a query: the query with ``?`` in the place of each literal, so that requests of one kind are alike."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from pydantic_core import from_json

#: The longest text of a query that is read, in characters.
MAX_QUERY_CHARACTERS = 65_536

#: What stands before a query that is not valid JSON: literals are written in another way in each language.
ESQL_MARK, SQL_MARK = "ES|QL: ", "SQL: "

_LITERAL = "?"
_CUT = "…"
_QUOTED_LITERAL, _QUOTED_CUT = f'"{_LITERAL}"', f'"{_CUT}"'
# Descriptions have texts with line ends as they are.
_DECODER = json.JSONDecoder(strict=False)
_WITHOUT_CONTROLS = dict.fromkeys(range(32), " ")
_ENCODER = json.JSONEncoder(ensure_ascii=False)
# Nested deeper, a query is a fault, and its shape is cut there.
_MAX_DEPTH = 60
_LONGEST_KEY = 100
_LONGEST_SHAPE = 2_000
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
    with suppress(ValueError, RecursionError):
        return _DECODER.raw_decode(text)[0], True
    with suppress(ValueError):
        # It may be cut anywhere.
        return from_json(
            text.translate(_WITHOUT_CONTROLS).encode(errors="replace"), allow_partial="trailing-strings"
        ), False
    return None, False


def _text_of(value: Any, depth: int = 0) -> str:
    """Return a value as compact JSON, with ``?`` for each literal; a list has one of equal elements."""
    if depth == _MAX_DEPTH and isinstance(value, (dict, list)):
        return _QUOTED_CUT
    if isinstance(value, dict):
        return f"{{{','.join([f'{_name_of(key)}:{_text_of(value[key], depth + 1)}' for key in sorted(value)])}}}"
    if isinstance(value, list):
        return f"[{','.join(sorted({_text_of(element, depth + 1) for element in value}))}]"
    return _QUOTED_LITERAL


def _name_of(key: str) -> str:
    return _ENCODER.encode(key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + _CUT)
