"""
What the description of a task says: the indices that the client named, the index of a shard, the query, and its shape.

The shape is the query with ``?`` in the place of each literal, so that requests of one kind are alike.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from pydantic_core import from_json

_ESQL = "indices:data/read/esql"
#: The parts of ES|QL, whose description is not the query.
ESQL_PARTS = f"{_ESQL}/"
# The actions whose description is a query of ES|QL.
_ESQL_ROOTS = (_ESQL, f"{_ESQL}/async")
_SQL = "indices:data/read/sql"
_REINDEX = "indices:data/write/reindex"
_SQL_START, _SQL_END = "SQL [", "]["
_SOURCE = "source["
# What stands before a query that is not JSON: literals are written in another way in each language.
_ESQL_MARK, _SQL_MARK = "ES|QL: ", "SQL: "
_LONGEST_QUERY = 65_536
_LONGEST_NAME = 200
# A list of indices may have thousands of names.
_LONGEST_LIST = 66_000

_SHARD = re.compile(r"(?:shardId\[|index)\[([^\[\]]+)\]")
_INDICES = re.compile(r"indices ?\[([^\[\]]*)\]")
_BY_QUERY = re.compile(r"(?:update|delete)-by-query \[([^\[\]]*)\]")
# What follows may be the text of a script. Of another cluster, the address and the query come first; its scheme is left
# out if it is http.
_REINDEX_FROM = re.compile(r"reindex from \[(?!(?:scheme|host)=)([^\[\]]*)\]")
_REINDEX_TO = re.compile(r" to \[([^\[\]]*)\](?:\[[^\[\]]*\])?\Z")
_SQL_TEXT = re.compile(r"'[^']*(?:'|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
# No index has such a name: it is a part of a query.
_NO_INDEX = re.compile(r'[\s"=]')
_PARENTHESES = re.compile(r"\([^()]*\)")
_MOST_PARENTHESES = 5
# A name in quotes may read like another clause. What follows DISTINCT FROM is a value.
_SQL_FROM = re.compile(r"\bDISTINCT\s+FROM\b|\bFROM\s+(\"[^\"]*\"|[^\s,()\"';]+)|\"[^\"]*(?:\"|\Z)", re.IGNORECASE)
_ESQL_COMMENTS = re.compile(r"(?:\s*(?://[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z)))*", re.DOTALL)
_ESQL_NAME = r"(?:\"[^\"]*\"|[^\s|,\[\]()\"]+)"
_ESQL_FROM = re.compile(rf"\s*(?:FROM|TS)\s+({_ESQL_NAME}(?:\s*,\s*{_ESQL_NAME})*)", re.IGNORECASE)

# Below these keys, keys are no names of fields: they are the tokens of a sparse vector, or a script's parameters.
_WORDS_AS_KEYS = frozenset({"params", "query_tokens", "query_vector", "tokens"})
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


def query_of(kind: str, description: str) -> str | None:
    """
    Return the query in the description of a task that coordinates a request; None if there is none.

    The description is such as ``indices[a], search_type[QUERY_THEN_FETCH], source[{"size":0}]``, or that of ES|QL or
    SQL, whose query has its mark before it. The query is as it stands there; a long one is cut.
    """
    if kind in _ESQL_ROOTS:
        text, mark = description.strip(), _ESQL_MARK
    elif kind.startswith(_SQL):
        text, mark = _sql_of(description), _SQL_MARK
    else:
        _, found, rest = description.partition(f"{_SOURCE}{{")
        text, mark = "", ""
        if found:
            # What follows the query stays.
            text = f"{{{rest}"[:_LONGEST_QUERY].removesuffix("]")
    return f"{mark}{text[:_LONGEST_QUERY]}" if text else None


def expression_of(kind: str, description: str) -> str | None:
    """Return the indices that the client named, with commas, as the task that coordinates a request has them."""
    names: list[str] = []
    if kind in _ESQL_ROOTS:
        found = _ESQL_FROM.match(_ESQL_COMMENTS.sub("", description, count=1))
        names = found[1].split(",") if found else []
    elif kind.startswith(_SQL):
        names = _tables_of(_sql_of(description))
    elif kind == _REINDEX:
        parts = (_REINDEX_FROM.match(description), _REINDEX_TO.search(description))
        listed = (name.strip() for part in parts if part for name in part[1].split(","))
        names = [name for name in listed if not _NO_INDEX.search(name)]
    elif found := (_BY_QUERY.match(description) or _INDICES.search(_before_query(description)[:_LONGEST_LIST])):
        names = found[1].split(",")
    return ",".join(filter(None, (name.strip(' \t\r\n"`') for name in names))) or None


def index_of(kind: str, description: str) -> str | None:
    """Return the index whose shard a task works on."""
    if kind.startswith((_ESQL, _SQL)):
        return None
    found = _SHARD.search(_before_query(description)[:_LONGEST_NAME])
    return found[1] if found else None


def _before_query(description: str) -> str:
    # A search may look for texts that read like the name of an index: they are literals of its query.
    return description.partition(_SOURCE)[0]


def _sql_of(description: str) -> str:
    """Return the statement of SQL without the filter, which follows it."""
    if not description.startswith(_SQL_START):
        return ""
    text = description[len(_SQL_START) :]
    return (text.rpartition(_SQL_END)[0] or text.removesuffix("]")).strip()


def _tables_of(statement: str) -> list[str]:
    """Return the table that a statement of SQL reads, which is an index."""
    text = _SQL_TEXT.sub(lambda found: _LITERAL if found[0].startswith("'") else " ", statement)
    # As in EXTRACT(YEAR FROM date); what a statement within another reads is left out.
    for _ in range(_MOST_PARENTHESES):
        text = _PARENTHESES.sub(_LITERAL, text)
    first = next((found[1] for found in _SQL_FROM.finditer(text) if found[1]), _LITERAL)
    return [] if _LITERAL in first else [first]


def shape_of(query: str) -> str:
    """
    Return the shape of a query.

    Each literal becomes ``?``. A list has each different element once. Keys are kept and sorted: they are names of
    fields, clauses and aggregations, but for those that are words searched for. Texts of scripts are literals. In ES|QL
    and SQL, names of fields and indices, keywords and operators are kept; comments are not.

    The query is JSON, or ES|QL or SQL after its mark; it may be cut anywhere, or be something else. The shape is JSON
    without blanks, or the text in one line; if it or the query was cut, it ends with ``…``.
    """
    mark = next((mark for mark in (_ESQL_MARK, _SQL_MARK) if query.startswith(mark)), "")
    if mark:
        text = query.removeprefix(mark)
        is_whole = len(text) < _LONGEST_QUERY
        text = (_ESQL_PART if mark == _ESQL_MARK else _SQL_PART).sub(_without_literal, text)
        shape = mark + _LITERALS.sub(_LITERAL, _BLANKS.sub(" ", text)).strip()
    else:
        value, is_whole = _decoded(query)
        shape = _json_shape(value)
    if len(shape) > _LONGEST_SHAPE:
        return shape[: _LONGEST_SHAPE - 1] + _CUT
    return shape if is_whole else shape + _CUT


def _without_literal(part: re.Match[str]) -> str:
    return part["name"] or (" " if part["comment"] else _LITERAL)


def _decoded(text: str) -> tuple[Any, bool]:
    """Return the value of JSON, and whether it is whole; what follows it is left out."""
    with suppress(ValueError, RecursionError):
        return _DECODER.raw_decode(text)[0], True
    with suppress(ValueError):
        # It may be cut anywhere.
        cut = text.translate(_WITHOUT_CONTROLS).encode(errors="replace")
        return from_json(cut, allow_partial="trailing-strings"), False
    return None, False


def _json_shape(value: Any, depth: int = 0) -> str:
    """Return a value as compact JSON, with ``?`` for each literal; a list has one of equal elements."""
    if depth == _MAX_DEPTH and isinstance(value, (dict, list)):
        return _QUOTED_CUT
    if isinstance(value, dict):
        return f"{{{','.join([f'{_name_of(key)}:{_shape_below(key, value[key], depth)}' for key in sorted(value)])}}}"
    if isinstance(value, list):
        return f"[{','.join(sorted({_json_shape(element, depth + 1) for element in value}))}]"
    return _QUOTED_LITERAL


def _shape_below(key: str, value: Any, depth: int) -> str:
    return _QUOTED_LITERAL if key in _WORDS_AS_KEYS and isinstance(value, dict) else _json_shape(value, depth + 1)


def _name_of(key: str) -> str:
    return _ENCODER.encode(key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + _CUT)
