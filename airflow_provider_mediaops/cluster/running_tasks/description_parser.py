"""Read the description of a task: the indices that the client named, the index of a shard, and the query."""

from __future__ import annotations

import re

from airflow_provider_mediaops.cluster.running_tasks.query_shape import ESQL_MARK, MAX_QUERY_CHARACTERS, SQL_MARK

#: The actions of ES|QL, whose description is the query; that of their parts is not.
ESQL_PARTS = "indices:data/read/esql/"
_ESQL = ("indices:data/read/esql", f"{ESQL_PARTS}async")
_SQL = "indices:data/read/sql"
_SQL_START, _SQL_END = "SQL [", "]["
_SOURCE = "source["
_LONGEST_NAME = 200
# A list of indices may have thousands of names.
_LONGEST_LIST = 66_000
_SHARD = re.compile(r"(?:shardId\[|index)\[([^\[\]]+)\]")
_INDICES = re.compile(r"indices ?\[([^\[\]]*)\]")
_BY_QUERY = re.compile(r"(?:update|delete)-by-query \[([^\[\]]*)\]")
# What follows may be the text of a script. Of another cluster, the address and the query come first.
_REINDEX_FROM = re.compile(r"reindex from \[(?!scheme=)([^\[\]]*)\]")
_REINDEX_TO = re.compile(r" to \[([^\[\]]*)\](?:\[[^\[\]]*\])?\Z")
_SQL_TEXT = re.compile(r"'[^']*(?:'|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_PARENTHESES = re.compile(r"\([^()]*\)")
_DEEPEST = 5
# A name in quotes may read like another clause. What follows DISTINCT FROM is a value.
_SQL_FROM = re.compile(r"\bDISTINCT\s+FROM\b|\bFROM\s+(\"[^\"]*\"|[^\s,()\"';]+)|\"[^\"]*(?:\"|\Z)", re.IGNORECASE)
_ESQL_COMMENTS = re.compile(r"(?:\s*(?://[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z)))*", re.DOTALL)
_ESQL_NAME = r"(?:\"[^\"]*\"|[^\s|,\[\]()\"]+)"
_ESQL_FROM = re.compile(rf"\s*(?:FROM|TS)\s+({_ESQL_NAME}(?:\s*,\s*{_ESQL_NAME})*)", re.IGNORECASE)


def query_of(kind: str, description: str) -> str | None:
    """
    Return the query in the description of a task that coordinates a request; None if there is none.

    The description is such as ``indices[a], search_type[QUERY_THEN_FETCH], source[{"size":0}]``, or that of ES|QL or
    SQL, whose query has its mark before it. The query is as it stands there, cut at :data:`MAX_QUERY_CHARACTERS`.
    """
    if kind in _ESQL:
        text, mark = description.strip(), ESQL_MARK
    elif kind.startswith(_SQL):
        text, mark = _sql_of(description), SQL_MARK
    else:
        text, mark = _json_of(description), ""
    return f"{mark}{text[:MAX_QUERY_CHARACTERS]}" if text else None


def expression_of(kind: str, description: str) -> str | None:
    """Return the indices that the client named, with commas, as the task that coordinates a request has them."""
    names: list[str] = []
    if kind in _ESQL:
        found = _ESQL_FROM.match(_ESQL_COMMENTS.sub("", description, count=1))
        names = found[1].split(",") if found else []
    elif kind.startswith(_SQL):
        names = _tables_of(_sql_of(description))
    elif kind == "indices:data/write/reindex":
        parts = (_REINDEX_FROM.match(description), _REINDEX_TO.search(description))
        names = [name for part in parts if part for name in part[1].split(",")]
    elif found := (_BY_QUERY.match(description) or _INDICES.search(_before_query(description)[:_LONGEST_LIST])):
        names = found[1].split(",")
    return ",".join(filter(None, (name.strip(' \t\r\n"`') for name in names))) or None


def index_of(kind: str, description: str) -> str | None:
    """Return the index whose shard a task works on."""
    if kind.startswith((*_ESQL, _SQL)):
        return None
    found = _SHARD.search(_before_query(description)[:_LONGEST_NAME])
    return found[1] if found else None


def _before_query(description: str) -> str:
    # A search may look for texts that read like the name of an index: they are literals of its query.
    return description.partition(_SOURCE)[0]


def _json_of(description: str) -> str:
    """Return the query of a search, with what follows it."""
    start = description.find(f"{_SOURCE}{{")
    if start < 0:
        return ""
    return description[start + len(_SOURCE) :][:MAX_QUERY_CHARACTERS].removesuffix("]")


def _sql_of(description: str) -> str:
    """Return the statement of SQL without the filter, which follows it."""
    if not description.startswith(_SQL_START):
        return ""
    text = description[len(_SQL_START) :]
    return (text.rpartition(_SQL_END)[0] or text.removesuffix("]")).strip()


def _tables_of(statement: str) -> list[str]:
    """Return the table that a statement of SQL reads, which is an index."""
    text = _SQL_TEXT.sub(lambda found: "?" if found[0].startswith("'") else " ", statement)
    # As in EXTRACT(YEAR FROM date); what a statement within another reads is left out.
    for _ in range(_DEEPEST):
        text, number = _PARENTHESES.subn("?", text)
        if not number:
            break
    names = (found[1] for found in _SQL_FROM.finditer(text) if found[1])
    first = next(names, "?")
    return [first] if "?" not in first else []
