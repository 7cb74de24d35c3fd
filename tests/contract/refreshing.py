"""A catalogue that is kept fresh in place by an enrichment whose attempts are killed; run as a program."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.enrichment.checkpoint import ENRICHED
from airflow_provider_mediaops.storage.formats import write_table
from tests.contract.enriching import NOW, connect, enrich, isbns
from tests.contract.killing import Work, run_program

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 100
_KINDS = 10
#: Books of the catalogue about which the service is to fail.
FAILING = isbns()[7:ROWS:_KINDS]


def refresh(destination: Path, summary: Path, rows: int = ROWS) -> None:
    """Enrich into an older catalogue, with requests and failures enough for all that is killed."""
    if not destination.exists():
        _write_catalogue(destination, rows)
    enrich(destination, summary, rows, reuse=str(destination), max_requests=100_000, max_failures="all")


def _write_catalogue(file: Path, rows: int) -> None:
    """Write the catalogue in one step: of each ten rows two that are young, and three that are too old."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name("part")
    records = [_row(isbn, number) for number, isbn in enumerate(isbns()[:rows]) if number % _KINDS in (1, 2, 4, 5, 7)]
    if file.suffix == ".csv":
        write_table("csv", part, ENRICHED, records)
    else:
        part.write_text("".join(json.dumps(record) + "\n" for record in records))
    part.replace(file)


def _row(isbn13: str, number: int) -> dict[str, Any]:
    fetched_at = NOW - timedelta(days=100 if number % 2 else 1)
    found = {"input": isbn13, "isbn13": isbn13, "status": "found", "error": None, "book": {"title": "As it was"}}
    return {**found, "fetched_at": fetched_at.isoformat(), "reused": False}


if __name__ == "__main__":
    run_program(Work(connect, refresh, part=partial(refresh, rows=_KINDS)))
