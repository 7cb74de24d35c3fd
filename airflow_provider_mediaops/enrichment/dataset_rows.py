"""The rows of the dataset: as they are committed, as a table, and as the next attempt reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.batch.options import ResumePoint, SeenLookups
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.formats import FlatView, json_line, json_lines

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.storage.source_columns import ColumnType

_PREFIX = "source_"
#: The number of the input row, in a dataset in which a row may have become several.
INPUT_ROW = "input_row"


def list_lines(isbns: Iterable[Any]) -> bytes:
    """Write a list as JSON lines with ``isbn`` as the column, as the triggerer reads it."""
    return json_lines({"isbn": text_of(isbn)} for isbn in isbns)


def row_of(lookup: Lookup, row: IsbnRow | None = None, *, numbered: bool = False) -> dict[str, Any]:
    """Return the row of a look-up, with what is kept of its row of the list."""
    return {
        **({INPUT_ROW: row.number} if row and numbered else {}),
        "input": lookup.input,
        "isbn13": lookup.isbn13,
        "status": lookup.status,
        "error": lookup.error,
        "note": row.note if row else None,
        "fetched_at": lookup.fetched_at,
        "reused": lookup.reused,
        "book": lookup.book.record if lookup.book else None,
        **({} if row is None or row.columns is None else {"source": row.columns}),
    }


def _flatten(row: Mapping[str, Any]) -> Mapping[str, object]:
    # The other fields of a row have the names of their columns.
    if row["book"] is None:
        return row
    book = Book(row["book"])
    return {**row, **book.cells(), "record": json_line(book.record).decode()}


#: The table of enriched ISBNs: a row an input, with the record's usual fields and the whole of it as JSON.
ENRICHED = FlatView(
    columns={
        **dict.fromkeys(("input", "isbn13", "status", "error", "note", "title", "title_long", "authors"), str),
        **dict.fromkeys(("publisher", "date_published", "language", "binding", "edition"), str),
        "pages": int,
        "msrp": float,
        **dict.fromkeys(("subjects", "dewey_decimal", "dimensions", "image", "record", "fetched_at"), str),
        "reused": bool,
    },
    flatten=_flatten,
)


def enriched_view(columns: Mapping[str, ColumnType], *, numbered: bool = False) -> FlatView:
    """Return the table of an enrichment with the columns of its source."""
    if not columns and not numbered:
        return ENRICHED
    number: dict[str, type[str | int | float | bool]] = {INPUT_ROW: int} if numbered else {}
    types: dict[ColumnType, type[str | int | float]] = {"str": str, "int": int, "float": float}
    kept = {f"{_PREFIX}{name}": types[kind] for name, kind in columns.items()}

    def flatten(row: Mapping[str, Any]) -> dict[str, object]:
        source = row.get("source") or {}
        return {**_flatten(row), **{f"{_PREFIX}{name}": _cell(source.get(name)) for name in columns}}

    return FlatView(columns={**number, **ENRICHED.columns, **kept}, flatten=flatten)


def _cell(value: Any) -> str | int | float | None:
    """Return a value of a list as a cell: texts and numbers as they are, others as JSON."""
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool)):
        return value
    return json_line(value).decode()


def resume_point(records: Iterable[Mapping[str, Any]], state: Mapping[str, Any]) -> ResumePoint:
    """Read what earlier attempts have left."""
    seen, last_found = SeenLookups(), None
    for rows in (records, state.get("ahead", ())):
        for row in rows:
            isbn13, status, reused = row["isbn13"], row["status"], row["reused"]
            if status == "found":
                # What an earlier dataset holds is not evidence of what this connection leads to.
                last_found = last_found if reused else isbn13
            elif status != "not_found":
                continue
            book = None if row["book"] is None else Book(row["book"])
            at = row["fetched_at"]
            seen.put(Lookup(isbn13, isbn13, status, error=row["error"], book=book, fetched_at=at, reused=reused))
    return ResumePoint(seen, state.get("doubts", {}), last_found)
