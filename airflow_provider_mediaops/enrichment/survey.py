"""Read a list once before the first request: count its rows, and say what was recognised and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.books.list_check import ListFigures
    from airflow_provider_mediaops.enrichment.arguments import EnrichmentOptions
    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.storage.source_list import ListReading

# The files that the log names one by one.
_NAMED_FILES = 5


@dataclass(frozen=True, slots=True)
class Survey:
    """One reading of a list before its enrichment, whose figures it completes."""

    enrichment: Enrichment
    options: EnrichmentOptions
    log: Callable[[str], None]
    warn: Callable[[str], None]

    def counted(self, isbns: Iterable[Any] | None) -> Enrichment:
        """Read the list."""
        from airflow_provider_mediaops.books.batch.rows import rows_of_source
        from airflow_provider_mediaops.enrichment.arguments import allowed_rows

        enrichment = self.enrichment
        reading = None
        if listed := enrichment.listed():
            reading = listed.read(enrichment.keep)
            rows = rows_of_source(reading, enrichment.several, repair_zeros=enrichment.repair_zeros)
        else:
            rows = enrichment.rows(isbns)
        figures = self._read(rows)
        if reading:
            enrichment = replace(enrichment, columns=self._columns(reading))
            self._say(reading)
        self.log(f"The list has {figures.line()}.")
        self._check(figures)
        bound = allowed_rows(self.options.max_failures, figures.rows)
        return replace(enrichment, total=figures.rows, max_failures=bound)

    def _read(self, rows: Iterable[IsbnRow]) -> ListFigures:
        from airflow_provider_mediaops.books.list_check import ListFigures

        figures, fails = ListFigures(), self.options.on_invalid == "fail"
        for row in rows:
            if fails and row.error:
                raise InvalidArgumentError(f"Row {row.number}: {row.error}")
            figures.add(row)
        return figures

    def _columns(self, reading: ListReading) -> dict[str, Any]:
        from airflow_provider_mediaops.storage.formats import format_of

        keep, enrichment = self.enrichment.keep, self.enrichment
        kept = reading.kept
        if not isinstance(keep, bool) and not kept and any(facts.rows for facts in reading.facts):
            raise InvalidArgumentError(f"keep_columns is {keep!r}, but {enrichment.named} has one text a line.")
        if format_of(enrichment.destination, enrichment.format) == "jsonl":
            return {}
        if error := reading.too_many_columns:
            raise InvalidArgumentError(error)
        return kept

    def _say(self, reading: ListReading) -> None:
        for facts in reading.facts[:_NAMED_FILES]:
            self.log(f"{unsigned(facts.path)}: {facts.described}; {facts.rows:,} rows.")
        if (more := len(reading.facts) - _NAMED_FILES) > 0:
            self.log(f"{more:,} more files were read.")
        for warning in reading.warnings():
            self.warn(warning)

    def _check(self, figures: ListFigures) -> None:
        from airflow_provider_mediaops.enrichment.arguments import allowed_rows

        bound = self.options.max_invalid
        if bound is not None and figures.invalid > allowed_rows(bound, figures.rows):
            raise InvalidArgumentError(
                f"max_invalid allows {allowed_rows(bound, figures.rows):,} of {figures.rows:,} rows to hold no ISBN, "
                f"and {figures.invalid:,} hold none: {figures.reasons_line()}. Nothing was requested."
            )
        if warning := figures.warning():
            self.warn(warning)
