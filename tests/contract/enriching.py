"""
Attempts of an enrichment that are killed, as `tests.contract.killing` kills those of an export.

Run as a program, with the server's address, the folder, the file's name, the most kills and a seed.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from airflow_provider_mediaops.exceptions import ConnectionFailedError
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.isbn import sample_isbns
from tests.contract.killing import repeat_until_done

ROWS = 500
RATE = 150
LONGEST = 0.15


def isbns() -> list[str]:
    """Give the list: of each ten rows one names a missing book, one a book of another row, and one is no ISBN."""
    books = sample_isbns(ROWS)
    rows = list(books)
    rows[3::10] = [_with_check_digit(f"97910900{number:04d}") for number in range(3, ROWS, 10)]
    rows[6::10] = [books[number // 2] for number in range(6, ROWS, 10)]
    rows[9::10] = [f"no ISBN {number}" for number in range(9, ROWS, 10)]
    return rows


def _with_check_digit(body: str) -> str:
    return body + str(-sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(body)) % 10)


def enrich(destination: Path, summary: Path) -> None:
    """Do what a task does, and leave what it returns in a file."""
    instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="enrich", map_index=-1, max_tries=99)
    operator = EnrichIsbnsOperator(task_id="enrich", destination=str(destination), isbns=isbns())
    summary.write_text(json.dumps(operator.execute({"ti": instance})))  # type: ignore[typeddict-item]


def connect(base: str) -> None:
    """Say where the database is, for each of the forks."""
    extra = {"requests_per_second": RATE, "max_attempts": 1, "rate_limit_store": "memory://"}
    connection = {"conn_type": "mediaops_books", "host": base, "password": "key-of-the-test", "extra": extra}
    os.environ["AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT"] = json.dumps(connection)


def main() -> None:
    """Carry out an enrichment, attempt by attempt."""
    base, folder, name, kills, seed = sys.argv[1:]
    # All that an attempt imports is imported by one against nothing.
    connect("http://127.0.0.1:1")
    with suppress(ConnectionFailedError):
        enrich(Path(folder, "never", name), Path(folder, "never.json"))
    connect(base)
    chance = random.Random(int(seed))  # noqa: S311 no secret
    summary = Path(folder, "summary.json")
    ended = repeat_until_done(
        lambda: enrich(Path(folder, name), summary),
        int(kills),
        # However fast the machine is: the rate does not let an attempt get far in this time.
        lambda: time.sleep(chance.uniform(0.0, LONGEST)),
    )
    print(json.dumps({**ended, "summary": json.loads(summary.read_text())}))  # noqa: T201 for the process that started it


if __name__ == "__main__":
    main()
