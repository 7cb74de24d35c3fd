"""The trigger of the book database's sensor: what survives the database, and the events it sends."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.triggers.books import BookTrigger
from airflow_provider_mediaops.triggers.deferral import value_of
from tests.unit.book_database import CRIME, PROGRAMMING, book, connection, found, http, no_such_book
from tests.unit.loopback import Loopback, answering
from tests.unit.sensor_forms import a_day, first_event, made_again

pytestmark = pytest.mark.usefixtures("supervisor")


def trigger(**watch: object) -> BookTrigger:
    return BookTrigger(conn_id="shelf", watch=watch or {"isbn": CRIME}, poke_interval=0.01, **a_day())


async def test_it_sends_the_record_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback(answering(http(no_such_book()), http(found(PROGRAMMING)), http(found(CRIME)))) as server:
        monkeypatch.setenv("AIRFLOW_CONN_SHELF", connection(server.base, canary_isbn=PROGRAMMING))
        event = await first_event(made_again(trigger()))
        assert server.accepted == 1

    assert value_of(event) == book(CRIME)["book"]


@pytest.mark.parametrize("watch", [{"isbn": "x"}, {"isbn": None}, {"isbn": []}])
async def test_what_cannot_be_waited_for_is_an_event_and_no_exception(watch: dict[str, object]) -> None:
    event = await first_event(trigger(**watch))

    assert event["status"] == "error"
