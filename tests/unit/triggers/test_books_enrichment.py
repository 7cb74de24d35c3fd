"""Enrichment in the triggerer: its event, and the event loop; restarts are in tests/models."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.enrichment.dataset_rows import ENRICHED
from airflow_provider_mediaops.exceptions import (
    PermanentError,
    TemporaryError,
)
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.triggers.base import value_of
from airflow_provider_mediaops.triggers.books import EnrichmentTrigger
from tests.unit.book_database import CALENDAR, CRIME, PROGRAMMING, book, connection, found, http, no_such_book
from tests.unit.loopback import Loopback, Peer
from tests.unit.sensor_forms import first_event, made_again
from tests.unit.triggers.watched_stage import HalfWritten, threads_of
from tests.unit.until import until

if TYPE_CHECKING:
    from pathlib import Path

    import requests_mock

    from tests.unit.conftest import Supervisor

OWNER = Owner("dag/today/enrich/-1", "digest")


def trigger(folder: Path, **fields: Any) -> EnrichmentTrigger:
    (folder / "isbns.txt").write_text(f"{CRIME}\nx\n{CALENDAR}\n{CRIME}\n{PROGRAMMING}\n")
    usual = {
        "owner": asdict(OWNER),
        "destination": f"{folder}/books.jsonl",
        "total": 5,
        "source": [f"{folder}/isbns.txt"],
    }
    made = EnrichmentTrigger(conn_id="books_1", enrichment={**usual, **fields})
    again = made_again(made)
    assert isinstance(again, EnrichmentTrigger)
    return again


async def enriched(trigger: EnrichmentTrigger) -> Any:
    return value_of(json.loads(json.dumps(await asyncio.wait_for(first_event(trigger), 240))))


def shelf(peer: Peer) -> None:
    """Answer as a database without one of the books."""
    while request := peer.request():
        isbn13 = request.split()[1].rpartition(b"/")[2].decode()
        peer.send(http(no_such_book() if isbn13 == CALENDAR else found(isbn13)))


def statuses(folder: Path) -> list[str]:
    return [json.loads(line)["status"] for line in (folder / "books.jsonl").read_text().splitlines()]


class TestEvent:
    async def test_requests_mock_answers_a_trigger(
        self, supervisor: Supervisor, requests_mock: requests_mock.Mocker, tmp_path: Path
    ) -> None:
        requests_mock.get(f"https://books.example/book/{CRIME}", json=book(CRIME))
        supervisor.connect("books_1", connection("https://books.example"))
        (tmp_path / "one.txt").write_text(f"{CRIME}\n")
        await enriched(trigger(tmp_path, source=[f"{tmp_path}/one.txt"], total=1))
        assert statuses(tmp_path) == ["found"]
        assert requests_mock.call_count == 1

    async def test_a_source_that_is_something_else_is_told(self, supervisor: Supervisor, tmp_path: Path) -> None:
        supervisor.connect("books_1", connection("http://127.0.0.1:1"))
        (tmp_path / "isbns.csv").write_text("sku\n1\n")

        with pytest.raises(PermanentError, match="there is no column 'isbn', but 'sku'"):
            await enriched(trigger(tmp_path, source=[f"{tmp_path}/isbns.csv"]))

    @pytest.mark.parametrize(
        "odd", [{"owner": {"of": "another version"}}, {"destination": "books.xlsx"}, {"of_another_version": 1}]
    )
    async def test_arguments_of_another_version_are_told(self, tmp_path: Path, odd: dict[str, Any]) -> None:
        with pytest.raises(TemporaryError, match="Another version of this provider made this trigger"):
            await enriched(trigger(tmp_path, **odd))


class TestEventLoop:
    @pytest.mark.parametrize("method", ["__init__", "append", "publish", "close"])
    async def test_files_are_worked_on_in_other_threads(
        self, supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        threads = threads_of(monkeypatch, method)
        with Loopback(shelf) as server:
            supervisor.connect("books_1", connection(server.base))
            await enriched(trigger(tmp_path))

        assert threads
        assert threading.get_ident() not in threads

    @pytest.mark.parametrize("method", ["__init__", "append"])
    async def test_a_cancelled_trigger_waits_for_what_is_half_written(
        self, supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
    ) -> None:
        step, answered = HalfWritten(monkeypatch, method), threading.Event()

        def answer(peer: Peer) -> None:
            while request := peer.request():
                peer.send(http(found(request.split()[1].rpartition(b"/")[2].decode())))
                answered.set()

        with Loopback(answer) as server:
            # One request, and answered: on Python 3.10 a connection that is being made as it is cancelled stays open.
            supervisor.connect("books_1", connection(server.base, requests_per_second=1))
            running = asyncio.ensure_future(first_event(trigger(tmp_path)))
            await until(lambda: step.begun.is_set() and (method == "__init__" or answered.is_set()))
            await step.outlasts(running, cancellations=1)

        assert step.done[0] == method
        assert step.done[-1] == "close"
        # So the next attempt finds it free.
        with Dataset(f"{tmp_path}/books.jsonl", view=ENRICHED).staging(OWNER):
            pass
