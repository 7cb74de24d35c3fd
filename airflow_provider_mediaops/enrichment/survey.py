"""Read a list once before the first request: count its rows, and say what was recognised and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.books.batch.rows import rows_of_source
from airflow_provider_mediaops.books.list_check import ListFigures
from airflow_provider_mediaops.enrichment.arguments import allowed_rows
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.storage.formats import format_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.storage.source_columns import ColumnType
    from airflow_provider_mediaops.storage.source_list import ListReading

# The files that the log names one by one.
_NAMED_FILES = 5


def survey(
    enrichment: Enrichment, isbns: Iterable[Any] | None, log: Callable[[str], None], warn: Callable[[str], None]
) -> Enrichment:
    """Read the list of an enrichment; return it with the number of the rows, and with the columns of the table."""
    figures = ListFigures()
    listed = enrichment.listed()
    if listed is None:
        rows = enrichment.rows(isbns)
    else:
        reading = listed.read(enrichment.keep_columns)
        rows = rows_of_source(reading, enrichment.several, repair_zeros=enrichment.repair_zeros)
    for row in rows:
        if row.error and enrichment.on_invalid == "fail":
            raise InvalidArgumentError(f"Row {row.number}: {row.error}")
        figures.add(row)
    if listed is not None:
        enrichment = replace(enrichment, columns=_columns_of(reading, enrichment))
        _describe(reading, log, warn)
    log(f"The list has {figures.line()}.")
    _check_invalid(figures, enrichment, warn)
    return replace(enrichment, total=figures.rows)


def _columns_of(reading: ListReading, enrichment: Enrichment) -> Mapping[str, ColumnType]:
    keep, kept = enrichment.keep_columns, reading.kept
    if not isinstance(keep, bool) and not kept and any(facts.rows for facts in reading.facts):
        raise InvalidArgumentError(f"keep_columns is {keep!r}, but {enrichment.named} has one text a line.")
    if format_of(enrichment.destination, enrichment.format) == "jsonl":
        return {}
    if error := reading.too_many_columns:
        raise InvalidArgumentError(error)
    return kept


def _describe(reading: ListReading, log: Callable[[str], None], warn: Callable[[str], None]) -> None:
    for facts in reading.facts[:_NAMED_FILES]:
        log(f"{unsigned(facts.path)}: {facts.described}; {facts.rows:,} rows.")
    if (more := len(reading.facts) - _NAMED_FILES) > 0:
        log(f"{more:,} more files were read.")
    for warning in reading.warnings():
        warn(warning)


def _check_invalid(figures: ListFigures, enrichment: Enrichment, warn: Callable[[str], None]) -> None:
    bound = enrichment.max_invalid
    if bound is not None and figures.invalid > (allowed := allowed_rows(bound, figures.rows)):
        raise InvalidArgumentError(
            f"max_invalid allows {allowed:,} of {figures.rows:,} rows to hold no ISBN, "
            f"and {figures.invalid:,} hold none: {figures.reasons_line()}. Nothing was requested."
        )
    if warning := figures.warning():
        warn(warning)
