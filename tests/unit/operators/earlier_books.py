"""Enrichments of runs of their own, and the earlier datasets that they reuse."""

from __future__ import annotations

import itertools
import json
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.unit.operators.enrichment import NOW, make

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

NEW = "9780439064873"
DAY = 86_400
_numbers = itertools.count()


def run(destination: object, **arguments: Any) -> dict[str, Any]:
    """Enrich as a task of a run of its own."""
    return make(destination, **arguments).execute(context(f"run {next(_numbers)}"))


def context(run_id: str) -> Any:
    return {"ti": SimpleNamespace(dag_id="dag", run_id=run_id, task_id="enrich", map_index=-1, max_tries=3)}


def asked(database: requests_mock.Mocker) -> list[str]:
    """Return the books that were asked for since the last call."""
    history = [request.path.rpartition("/")[2] for request in database.request_history]
    database.reset_mock()
    return history


def at(days: float) -> str:
    """Return the time so many days ago, as a row has it."""
    return datetime.fromtimestamp(NOW - days * DAY, timezone.utc).isoformat()


def row(isbn13: str, status: str = "found", *, days: float | None = 1, **fields: Any) -> dict[str, Any]:
    """Return a row of an earlier dataset."""
    record = {"isbn13": isbn13, "title": "As it was"} if status == "found" else None
    when = {} if days is None else {"fetched_at": at(days), "reused": False}
    return {"input": isbn13, "isbn13": isbn13, "status": status, "error": None, **when, "book": record, **fields}


def dataset(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return str(path)
