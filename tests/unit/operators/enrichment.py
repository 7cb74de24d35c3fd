"""Enrichments by their operator, of a database with two books, and the earlier datasets that they reuse."""

from __future__ import annotations

import itertools
import json
import time
from datetime import datetime, timezone, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from tests.unit.book_database import CALENDAR, CRIME, NO_SUCH_BOOK, PROGRAMMING, asked, book, connection

if TYPE_CHECKING:
    from requests_mock import Mocker

BASE = "https://books.example"
NEW = "9780439064873"
#: When the service answers, in seconds since 1970.
NOW = int(time.time())
_DAY = 86_400
_numbers = itertools.count()


def address(isbn13: str) -> str:
    return f"{BASE}/book/{isbn13}"


def make(destination: object, **arguments: Any) -> EnrichIsbnsOperator:
    return EnrichIsbnsOperator(task_id="enrich", destination=str(destination), **arguments)


def context(run: str = "today", max_tries: int = 2) -> Any:
    return {"ti": SimpleNamespace(dag_id="dag", run_id=run, task_id="enrich", map_index=-1, max_tries=max_tries)}


def enrich(destination: object, **arguments: Any) -> dict[str, Any]:
    """Enrich as a task of a run of its own."""
    return make(destination, **arguments).execute(context(f"run {next(_numbers)}"))


def shelve(database: Mocker, *isbns: str) -> None:
    """Have the database have these books."""
    for isbn13 in isbns:
        database.get(address(isbn13), json=book(isbn13))


def asked_since(database: Mocker) -> list[str]:
    """Return the books that were asked for since the last call."""
    history = asked(database)
    database.reset_mock()
    return history


def at(days: float) -> str:
    """Return the time so many days ago, as a row has it."""
    return datetime.fromtimestamp(NOW - days * _DAY, timezone.utc).isoformat()


def row(isbn13: str, status: str = "found", *, days: float = 1, **fields: Any) -> dict[str, Any]:
    """Return a row of an earlier dataset."""
    record = {"isbn13": isbn13, "title": "As it was"} if status == "found" else None
    return {
        "input": isbn13,
        "isbn13": isbn13,
        "status": status,
        "error": None,
        "fetched_at": at(days),
        "reused": False,
        "book": record,
        **fields,
    }


def dataset(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return str(path)


def json_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class SteadyTime(datetime):
    """Tell the same time all along, so that two runs write the same bytes."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> SteadyTime:
        return cls.fromtimestamp(NOW, tz)


@pytest.fixture(autouse=True)
def database(monkeypatch: pytest.MonkeyPatch, requests_mock: Mocker) -> Mocker:
    """Have a database with two books."""
    monkeypatch.setattr("airflow_provider_mediaops.http.exchange.datetime", SteadyTime)
    monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT", connection(BASE))
    requests_mock.get(address(CRIME), json=book(CRIME, pages="8", unknown=[1]))
    requests_mock.get(address(PROGRAMMING), json=book(PROGRAMMING))
    requests_mock.get(address(CALENDAR), status_code=404, json=NO_SUCH_BOOK)
    requests_mock.get(f"{BASE}/key", status_code=404, json={})
    return requests_mock
