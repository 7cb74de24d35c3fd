"""An enrichment whose attempts are killed; run as a program."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone, tzinfo
from pathlib import Path
from types import SimpleNamespace

from airflow_provider_mediaops.http import exchange
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.books import sample_isbns
from tests.contract.killing import run_program

ROWS = 200
RATE = 200
_KINDS = 10
MISSING = ROWS // _KINDS
NOW = datetime.now(timezone.utc).replace(microsecond=0)


class SteadyTime(datetime):
    """Tell the same time in all attempts, so that they write the same bytes."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> SteadyTime:
        return cls.fromtimestamp(NOW.timestamp(), tz)


def isbns() -> list[str]:
    """Give the list: of each ten rows one names a missing book, one a book of another row, and one is not an ISBN."""
    books = sample_isbns(ROWS)
    rows = list(books)
    rows[3::_KINDS] = [_with_check_digit(f"97910900{number:04d}") for number in range(3, ROWS, _KINDS)]
    rows[6::_KINDS] = [books[number // 2] for number in range(6, ROWS, _KINDS)]
    rows[9::_KINDS] = [f"no ISBN {number}" for number in range(9, ROWS, _KINDS)]
    return rows


def _with_check_digit(body: str) -> str:
    return body + str(-sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(body)) % 10)


def connect(base: str) -> None:
    """Say where the database is, for each of the forks."""
    extra = {"requests_per_second": RATE, "max_attempts": 1, "rate_limit_store": "memory://"}
    connection = {"conn_type": "mediaops_books", "host": base, "password": "key-of-the-test", "extra": extra}
    os.environ["AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT"] = json.dumps(connection)


def enrich(destination: Path, summary: Path) -> None:
    """Do what a task does, and leave what it returns in a file."""
    vars(exchange)["datetime"] = SteadyTime
    instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="enrich", map_index=-1, max_tries=99)
    source = summary.with_name("list.csv")
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("row,isbn,note\n" + "".join(f'{row},{isbn},"{row} €"\n' for row, isbn in enumerate(isbns())))
    operator = EnrichIsbnsOperator(task_id="enrich", destination=str(destination), source=str(source))
    summary.write_text(json.dumps(operator.execute({"ti": instance})))  # type: ignore[typeddict-item]


if __name__ == "__main__":
    run_program(connect, enrich)
