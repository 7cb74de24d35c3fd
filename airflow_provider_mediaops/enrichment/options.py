"""Read the options of an enrichment: how a list is looked up, and how its dataset is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_mediaops.arguments import optional, read_choice, read_flag, read_seconds, read_whole_number
from airflow_provider_mediaops.enrichment.row_bounds import RowBound, read_row_bound
from airflow_provider_mediaops.storage.formats import CSV_FORMULAS, CsvFormulas
from airflow_provider_mediaops.storage.source_columns import Keep, read_keep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.books.batch.rows import Several

#: A value for each option that fits all values of the others: it stands for a template until that is rendered.
STAND_INS: dict[str, Any] = {
    "keep_columns": True,
    "csv_formulas": "keep",
    "bulk": True,
    "several": "first",
    "repair_zeros": False,
    "on_invalid": "record",
    "max_invalid": None,
    "max_failures": 0,
    "reuse_for": 0,
    "reuse_not_found_for": 0,
    "max_requests": None,
}


@dataclass(frozen=True, slots=True)
class EnrichmentOptions:
    """The options of an enrichment, read; the operator's arguments of the same names describe them."""

    keep_columns: Keep
    csv_formulas: CsvFormulas
    bulk: bool
    several: Several
    repair_zeros: bool
    on_invalid: str
    max_invalid: RowBound | None
    max_failures: RowBound
    reuse_seconds: float
    reuse_not_found_seconds: float
    max_requests: int | None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> EnrichmentOptions:
        """Read the options as people and templates write them."""
        return cls(
            keep_columns=read_keep(values["keep_columns"]),
            csv_formulas=cast("CsvFormulas", read_choice("csv_formulas", values["csv_formulas"], CSV_FORMULAS)),
            bulk=read_flag("bulk", values["bulk"]),
            several=cast("Several", read_choice("several", values["several"], ("first", "rows"))),
            repair_zeros=read_flag("repair_zeros", values["repair_zeros"]),
            on_invalid=read_choice("on_invalid", values["on_invalid"], ("record", "fail")),
            max_invalid=None if values["max_invalid"] is None else read_row_bound("max_invalid", values["max_invalid"]),
            max_failures=read_row_bound("max_failures", values["max_failures"]),
            reuse_seconds=read_seconds("reuse_for", values["reuse_for"]),
            reuse_not_found_seconds=read_seconds("reuse_not_found_for", values["reuse_not_found_for"]),
            max_requests=optional(read_whole_number, "max_requests", values["max_requests"], minimum=0),
        )
