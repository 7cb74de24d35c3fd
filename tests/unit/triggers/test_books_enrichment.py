"""Enrichment in the triggerer: its event, and a cancellation amid a write; restarts are in tests/models."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.enrichment.dataset_rows import ENRICHED
from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.triggers.base import value_of
from airflow_provider_mediaops.triggers.books import EnrichmentTrigger
from tests.unit.book_database import CRIME, book, connection, found, http
from tests.unit.loopback import Loopback, Peer
from tests.unit.sensor_forms import first_event, made_again
from tests.unit.triggers.exports import OWNER
from tests.unit.triggers.watched_stage import HalfWritten
from tests.unit.until import until

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

    from tests.unit.conftest import Supervisor


def trigger(folder: Path, name: str, text: str) -> EnrichmentTrigger:
    """Make a trigger that enriches a list of one ISBN, with its text in a file of that name."""
    (folder / name).write_text(text)
    description = {
        "owner": asdict(OWNER),
        "destination": f"{folder}/books.jsonl",
        "total": 1,
        "source": [f"{folder}/{name}"],
    }
    again = made_again(EnrichmentTrigger(conn_id="books_1", work=description))
    assert isinstance(again, EnrichmentTrigger)
    return again


async def enriched(trigger: EnrichmentTrigger) -> Any:
    return value_of(json.loads(json.dumps(await asyncio.wait_for(first_event(trigger), 240))))


async def test_requests_mock_answers_a_trigger(
    supervisor: Supervisor, requests_mock: requests_mock.Mocker, tmp_path: Path
) -> None:
    requests_mock.get(f"https://books.example/book/{CRIME}", json=book(CRIME))
    supervisor.connect("books_1", connection("https://books.example"))
    assert (await enriched(trigger(tmp_path, "one.txt", f"{CRIME}\n")))["found"] == 1
    [line] = (tmp_path / "books.jsonl").read_text().splitlines()
    assert json.loads(line)["status"] == "found"
    assert requests_mock.call_count == 1


async def test_a_source_that_is_something_else_is_told(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.connect("books_1", connection("http://127.0.0.1:1"))
    with pytest.raises(PermanentError, match="there is no column 'isbn', but 'sku'"):
        await enriched(trigger(tmp_path, "isbns.csv", "sku\n1\n"))


async def test_a_cancelled_trigger_waits_for_what_is_half_written(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, answered = HalfWritten(monkeypatch, "append"), threading.Event()

    def answer(peer: Peer) -> None:
        while peer.request():
            peer.send(http(found(CRIME)))
            answered.set()

    with Loopback(answer) as server:
        # Answered: on Python 3.10 a connection that is being made as it is cancelled stays open.
        supervisor.connect("books_1", connection(server.base))
        running = asyncio.ensure_future(first_event(trigger(tmp_path, "one.txt", f"{CRIME}\n")))
        await until(lambda: step.begun.is_set() and answered.is_set())
        await step.outlasts(running, cancellations=1)

    assert (step.done[0], step.done[-1]) == ("append", "close")
    # So the next attempt finds it free.
    with Dataset(f"{tmp_path}/books.jsonl", view=ENRICHED).staging(OWNER):
        pass
