"""Read a list once before the first request: count its rows, and say what was recognised and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.books.list_check import ListFigures, shortened
from airflow_provider_mediaops.enrichment.arguments import allowed_rows
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.storage.formats import format_of
from airflow_provider_mediaops.storage.source_columns import MAX_COLUMNS
from airflow_provider_mediaops.storage.source_list import encoding_warning, table_columns

if TYPE_CHECKING:
    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.storage.source_columns import ColumnType
    from airflow_provider_mediaops.storage.source_file import SourceFile

# The files that the log names one by one.
_NAMED_FILES = 5


def survey(
    enrichment: Enrichment, isbns: Iterable[Any] | None, log: Callable[[str], None], warn: Callable[[str], None]
) -> Enrichment:
    """Read the list of an enrichment; return it with the number of the rows, and with the columns of the table."""
    figures, files = ListFigures(), enrichment.files()
    for row in enrichment.rows(files, isbns):
        if row.error and enrichment.on_invalid == "fail":
            text = f"{shortened(row.text)!r}: " if row.text else ""
            raise InvalidArgumentError(
                f"{enrichment.named or 'isbns'}, {row.place}: {text}{row.reason or row.error}. Nothing was requested."
            )
        figures.add(row)
    columns = _columns_of(files, enrichment)
    for file in files[:_NAMED_FILES]:
        log(f"{unsigned(file.path)}: {file.described}.")
    if (more := len(files) - _NAMED_FILES) > 0:
        log(f"{counted(more, 'more file')} read.")
    log(f"The list has {figures.line()}.")
    bound = enrichment.max_invalid
    if bound is not None and figures.invalid > (allowed := allowed_rows(bound, figures.rows)):
        raise InvalidArgumentError(
            f"max_invalid allows {allowed:,} of {figures.rows:,} rows to hold no ISBN, "
            f"and {figures.invalid:,} hold none: {figures.reasons_line()}. Nothing was requested."
        )
    for warning in filter(None, (encoding_warning(files), figures.warning())):
        warn(warning)
    return replace(enrichment, columns=columns, total=figures.rows)


def _columns_of(files: Sequence[SourceFile], enrichment: Enrichment) -> dict[str, ColumnType]:
    keep, columns = enrichment.keep_columns, table_columns(files)
    if not isinstance(keep, bool) and not columns and any(file.rows for file in files):
        raise InvalidArgumentError(f"keep_columns is {keep!r}, but {enrichment.named} has one text a line.")
    if format_of(enrichment.destination, enrichment.format) == "jsonl":
        return {}
    if len(columns) > MAX_COLUMNS:
        raise InvalidArgumentError(
            f"source {unsigned(enrichment.named)}: there are more than {MAX_COLUMNS:,} columns; name in keep_columns "
            "those that the table is to have, or write .jsonl."
        )
    return columns
