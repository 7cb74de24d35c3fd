"""An enrichment in the triggerer, which is killed meanwhile."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from airflow_provider_mediaops.sandbox.faults import DelayFault
from tests.staged_rows import staged_rows
from tests.system.connections import SECRETS
from tests.system.running import ended, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Ended, Runs, WatchedAirflow

BOOKS = sample_isbns(5_060)[5_000:]
MISSING = ["9791090000018", "9791090000025"]
# So many are answered before the triggerer dies.
SAVED = 12
ROWS = [*BOOKS[:30], *MISSING, "978-0", *BOOKS[:10], *BOOKS[30:]]


class Enriched(NamedTuple):
    """The run, what its trigger was given, and what had been asked for when the triggerer died."""

    run: Ended
    trigger_arguments: list[str]
    before: list[str]
    state: str | None


def asked(sandbox: SandboxServer) -> list[str]:
    """Give the books of the list that were asked for."""
    books = [request.path.rpartition("/")[2] for request in list(sandbox.state.requests) if "/book/" in request.path]
    return [isbn13 for isbn13 in books if isbn13 in ROWS]


@pytest.fixture(scope="module")
def enriched(airflow: WatchedAirflow, sandbox: SandboxServer, runs: Runs, output: Path) -> Enriched:
    runs.all_ended()  # so that nobody else uses the key
    for isbn13 in BOOKS[SAVED:]:
        sandbox.state.faults.arm(DelayFault(service="books", path=isbn13, seconds=600, point="before_reply"))
    run_id = airflow.trigger("system_enrichment")

    def is_saved() -> bool:
        saved = staged_rows(output / "enrichment" / "books.jsonl")
        return saved >= SAVED and not set(BOOKS[SAVED:]).isdisjoint(asked(sandbox))

    wait_for(is_saved, "it has saved what was answered, and waits for others in the triggerer")
    arguments = [text for text in airflow.trigger_arguments() if "system_enrichment" in text]
    states = {task.name: task.state for task in airflow.task_instances("system_enrichment", run_id)}

    airflow.kill("triggerer")
    before = asked(sandbox)
    sandbox.state.faults.clear()
    airflow.start_again("triggerer")
    return Enriched(ended(airflow, "system_enrichment", run_id), arguments, before, states["enrich"])


@pytest.mark.usefixtures("enriched")
def test_every_row_is_there_once_and_in_order(output: Path) -> None:
    lines = (output / "enrichment" / "books.jsonl").read_text().splitlines()
    rows = [(row["input"], row["status"]) for row in map(json.loads, lines)]
    others = {"978-0": "invalid", **dict.fromkeys(MISSING, "not_found")}
    assert rows == [(text, others.get(text, "found")) for text in ROWS]


def test_the_task_does_not_know_of_the_death(enriched: Enriched) -> None:
    assert enriched.run.states["enrich"] == "success"
    assert enriched.run.tries("enrich") == 1
    assert enriched.state == "deferred"
    summary = enriched.run.value("enrich")
    figures = {name: summary[name] for name in ("rows", "found", "not_found", "invalid", "failed", "resumed")}
    assert figures == {"rows": 73, "found": 70, "not_found": 2, "invalid": 1, "failed": 0, "resumed": True}


def test_saved_rows_are_not_asked_for_again(enriched: Enriched, sandbox: SandboxServer) -> None:
    counts = Counter(asked(sandbox))
    assert len(enriched.before) < len(counts)
    # A probe is asked for now and then.
    assert sum(counts[isbn13] > 1 for isbn13 in BOOKS[:SAVED]) <= 2
    assert len({isbn13 for isbn13, count in counts.items() if count > 1} - {*enriched.before}) <= 2
    assert "Resuming after" in enriched.run.log("enrich")


def test_the_list_is_in_no_database_and_its_file_is_gone(enriched: Enriched, output: Path) -> None:
    (arguments,) = enriched.trigger_arguments
    assert not [isbn13 for isbn13 in BOOKS if isbn13 in arguments]
    assert not [secret for secret in SECRETS if secret in arguments]
    assert {path.name for path in (output / "enrichment").iterdir()} == {"books.jsonl", ".books.jsonl.staging"}
