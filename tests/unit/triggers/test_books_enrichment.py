"""Enrichment in the triggerer; restarts are in tests/models, and a cancellation amid a write is as in an export."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.triggers.base import value_of
from airflow_provider_mediaops.triggers.books import EnrichmentTrigger
from tests.unit.book_database import CRIME, book, connection
from tests.unit.sensor_forms import first_event, made_again
from tests.unit.triggers.exports import OWNER

if TYPE_CHECKING:
    import requests_mock

    from tests.unit.conftest import Supervisor


async def test_requests_mock_answers_a_trigger(
    supervisor: Supervisor, requests_mock: requests_mock.Mocker, tmp_path: Path
) -> None:
    requests_mock.get(f"https://books.example/book/{CRIME}", json=book(CRIME))
    supervisor.connect("books_1", connection("https://books.example"))
    (tmp_path / "one.txt").write_text(f"{CRIME}\n")
    files = {"source": [f"{tmp_path}/one.txt"], "destination": f"{tmp_path}/books.jsonl"}
    trigger = made_again(EnrichmentTrigger(conn_id="books_1", work={"owner": asdict(OWNER), "total": 1, **files}))

    summary = value_of(await asyncio.wait_for(first_event(trigger), 240))

    assert summary["found"] == 1
    [line] = (tmp_path / "books.jsonl").read_text().splitlines()
    assert json.loads(line)["status"] == "found"
    assert requests_mock.call_count == 1
