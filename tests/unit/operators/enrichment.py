"""Enrichments by their operator, of a database with two books."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.triggers.books import EnrichmentTrigger
from tests.airflow_names import TaskDeferred
from tests.unit.book_database import CALENDAR, CRIME, NO_SUCH_BOOK, PROGRAMMING, book, connection
from tests.unit.call_flows import on_a_loop
from tests.unit.sensor_forms import first_event, made_again

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

    import requests_mock

BASE = "https://books.example"
#: When the service answers, in seconds since 1970.
NOW = int(time.time())


def address(isbn13: str) -> str:
    return f"{BASE}/book/{isbn13}"


def make(destination: object, **arguments: Any) -> EnrichIsbnsOperator:
    return EnrichIsbnsOperator(task_id="enrich", destination=str(destination), **arguments)


def json_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def in_triggerer(operator: EnrichIsbnsOperator, context: Any) -> dict[str, Any]:
    """Run an operator that defers: its trigger goes through Airflow's database, and the task takes up its event."""
    with pytest.raises(TaskDeferred) as caught:
        operator.execute(context)
    trigger = made_again(caught.value.trigger)
    assert isinstance(trigger, EnrichmentTrigger)
    event = on_a_loop(asyncio.wait_for(first_event(trigger), 240))
    return operator.execute_complete(context, json.loads(json.dumps(event)))


class SteadyTime(datetime):
    """Tell the same time all along, so that two runs write the same bytes."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> SteadyTime:
        return cls.fromtimestamp(NOW, tz)


@pytest.fixture(autouse=True)
def database(monkeypatch: pytest.MonkeyPatch, requests_mock: requests_mock.Mocker) -> requests_mock.Mocker:
    """Have a database with two books."""
    monkeypatch.setattr("airflow_provider_mediaops.http.clock.datetime", SteadyTime)
    monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT", connection(BASE))
    requests_mock.get(address(CRIME), json=book(CRIME, pages="8", unknown=[1]))
    requests_mock.get(address(PROGRAMMING), json=book(PROGRAMMING))
    requests_mock.get(address(CALENDAR), status_code=404, json=NO_SUCH_BOOK)
    requests_mock.get(f"{BASE}/key", status_code=404, json={})
    return requests_mock
