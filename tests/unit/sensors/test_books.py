"""The sensor of the book database: what it waits for, and what it returns, in each of its forms."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_provider_mediaops.books.isbn import InvalidIsbnError
from airflow_provider_mediaops.exceptions import RateLimitedError
from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.http import runner
from airflow_provider_mediaops.sensors.books import BookSensor
from airflow_provider_mediaops.triggers.books import BookTrigger
from tests.airflow_names import TaskDeferred
from tests.unit.book_database import (
    CRIME,
    KEY,
    PROGRAMMING,
    connection,
    found,
    http,
    limit_404,
    no_such_book,
    replied,
)
from tests.unit.log_lines import log_lines
from tests.unit.sensor_forms import FORMS, run

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.sensors.conftest import StartService

pytestmark = pytest.mark.usefixtures("supervisor")
every_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch, start_service: StartService) -> Callable[..., list[bytes]]:
    """Start the database of the default connection, which gives these answers in turn and the last for ever."""

    def start(*answers: Response) -> list[bytes]:
        base, seen = start_service(*map(http, answers))
        monkeypatch.setenv("AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT", connection(base, canary_isbn=PROGRAMMING))
        return seen

    return start


def sensor(**arguments: Any) -> Callable[..., BookSensor]:
    """Give what makes a sensor of the form's arguments."""

    def make(**form: Any) -> BookSensor:
        return BookSensor(
            task_id="wait", **{"isbn": "0-14-044913-2", "poke_interval": 0.01, "timeout": 20, **arguments, **form}
        )

    return make


@every_form
def test_sensor_waits_until_there_is_a_record_and_returns_it(database: Any, form: str) -> None:
    there = replied({"book": {"isbn13": CRIME, "title": "C\0", "more": [None]}})
    seen = database(no_such_book(), found(PROGRAMMING), there)

    assert run(sensor(), form) == {"isbn13": CRIME, "title": "C", "more": [None]}
    assert [request.split()[1] for request in seen] == [
        f"/book/{isbn}".encode() for isbn in (CRIME, PROGRAMMING, CRIME)
    ]
    assert all(f"authorization: {KEY}".encode() in request.lower() for request in seen)


def test_book_that_is_waited_for_is_told_once(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = log_lines(monkeypatch, BookSensor)
    database(no_such_book(), found(PROGRAMMING), no_such_book(), limit_404(), found(CRIME))

    run(sensor(), "poke")

    assert [line for line in lines if "Waiting" in line] == [
        f"INFO: Waiting: no record of {CRIME}",
        f"INFO: Waiting: no record of {CRIME}, or the key's limit is reached",
    ]


@pytest.mark.parametrize("isbn", ["9780140449137", "", "978-0"])
def test_a_text_that_is_no_isbn_is_refused_at_parse_time(isbn: str) -> None:
    with pytest.raises(InvalidIsbnError):
        BookSensor(task_id="wait", isbn=isbn)


def limit(why: str, *, seconds: float) -> None:
    """Let somebody else who uses the key hear of its limit."""
    limiter = BookDatabaseHook().service.client.limiter
    assert limiter is not None
    told = limiter.on_error(RateLimitedError(why, retry_after=seconds), None, 600.0)
    runner.run(told, lambda request: pytest.fail(str(request)))


class TestFirstLookOfADeferrableSensor:
    def test_first_look_does_not_wait_for_a_service_that_is_down(self, database: Any) -> None:
        database(replied(b"<html>Bad gateway</html>", 502, Retry_After="900"))
        began = time.monotonic()

        with pytest.raises(TaskDeferred) as caught:
            sensor(deferrable=True, timeout=3600)().execute(cast("Context", {}))

        assert time.monotonic() - began < 600
        assert isinstance(caught.value.trigger, BookTrigger)
        assert caught.value.trigger.first_reading - time.time() == pytest.approx(300, abs=240)

    def test_first_look_waits_for_its_turn_in_the_rate(self, database: Any) -> None:
        seen = database(found(CRIME))
        limit("the last request", seconds=0.2)

        record = sensor(deferrable=True)().execute(cast("Context", {}))

        assert record["isbn13"] == CRIME
        assert len(seen) == 1

    @pytest.mark.parametrize("seconds", [300, 500])
    def test_a_look_that_was_given_up_is_made_soon(self, database: Any, seconds: float) -> None:
        seen = database(found(CRIME))
        began = time.time()
        limit("too many requests", seconds=seconds)

        with pytest.raises(TaskDeferred) as caught:
            sensor(deferrable=True, poke_interval=1200, timeout=3600)().execute(cast("Context", {}))

        trigger = caught.value.trigger
        assert isinstance(trigger, BookTrigger)
        assert trigger.first_reading == pytest.approx(began + seconds, abs=240)
        assert seen == []

    def test_with_silent_fail_every_look_is_the_triggers(self, database: Any) -> None:
        seen = database(found(CRIME))

        with pytest.raises(TaskDeferred):
            sensor(deferrable=True, silent_fail=True)().execute(cast("Context", {}))

        assert seen == []
