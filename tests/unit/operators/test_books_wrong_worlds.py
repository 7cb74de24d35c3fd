"""
Worlds in which a 404 is not about the book, in a worker and in the triggerer, mapped and resumed.

In none of them is a book that exists written as ``not_found``. The task ends soon with an error that says what to
correct, what was found before is kept, and the retry in the right world finds the rest.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_mediaops.enrichment.attempt import Attempt, Enrichment
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    MediaOpsError,
    PermanentError,
    PermissionDeniedError,
    QuotaExceededError,
    RateLimitedError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.rate_limit.stores import store_at
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns
from airflow_provider_mediaops.storage.ownership import Owner
from airflow_provider_mediaops.task_failure import HAS_RETRY_POLICY
from tests.unit.book_database import LIMIT_404, LIMIT_429, connection, found, http, limit_404, replied
from tests.unit.books.batch.test_runner import Service, batch_of
from tests.unit.books.batch.test_runner import clock as loop_clock
from tests.unit.loopback import Loopback, Peer
from tests.unit.operators.enrichment import in_triggerer, json_rows
from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.conftest import Supervisor

ISBNS = sample_isbns(12)
CANARY = sample_isbns(13)[-1]
WEB_PAGE = b"<!DOCTYPE html><html><body>Sign in to the network</body></html>"
HTML = {"Content_Type": "text/html"}
# A task that hunts for witnesses takes three minutes; one that gives up at once takes a second on an idle machine.
_SOON_SECONDS = 100.0


@dataclass
class World:
    """
    A world that a connection may lead to by mistake.

    :param reply: the reply to every request, or to every request after some.
    :param error: the class of the error that the task ends with.
    :param advice: a part of its message.
    :param after: how many requests are answered rightly before.
    :param tries: ``max_attempts`` of the connection. With 1, what would be waited out ends the task at once.
    """

    reply: Response
    error: type[MediaOpsError]
    advice: str
    after: int = 0
    tries: int = 5


WORLDS = {
    "wrong path": World(
        replied({"message": "There is no endpoint GET /books/pro/v2/book."}, 404), PermanentError, "base address"
    ),
    "another service": World(
        replied({"error": {"code": 404, "message": "Requested entity was not found."}}, 404),
        PermanentError,
        "base address",
    ),
    "an empty object": World(replied({}, 404), PermanentError, "base address"),
    "a gateway": World(replied({"message": "no Route matched with those values"}, 404), PermanentError, "base address"),
    "a gateway, later": World(
        # The service fails; or the connection was changed, if only an earlier attempt has found a book.
        replied({"message": "no Route matched"}, 404),
        MediaOpsError,
        "no Route matched",
        after=4,
        tries=1,
    ),
    "a captive portal": World(replied(WEB_PAGE, 200, **HTML), PermanentError, "web page"),
    "a web page": World(replied(WEB_PAGE, 404, **HTML), PermanentError, "base address"),
    "nothing": World(replied(b"", 404), PermanentError, "base address"),
    "nothing at all": World(replied(b"", 200), PermanentError, "JSON"),
    "another plan's key (401)": World(replied({"message": "Unauthorized"}, 401), AuthenticationError, "plan"),
    "another plan's key (403)": World(replied({"message": "Forbidden"}, 403), PermissionDeniedError, "plan"),
    "another plan's key, later": World(replied({"message": "Forbidden"}, 403), PermissionDeniedError, "plan", after=4),
    "a limit (404)": World(limit_404(), RateLimitedError, "limit", after=4, tries=1),
    "a limit from the start": World(limit_404(), RateLimitedError, "limit", tries=1),
    "a limit (429)": World(replied(LIMIT_429, 429), RateLimitedError, "limit", after=4, tries=1),
    "a day's quota": World(replied({"message": "Daily quota exceeded"}, 429), QuotaExceededError, "quota", after=4),
    "a service that is down": World(replied(b"", 503), ServiceUnavailableError, "503", after=4, tries=1),
}


class Database:
    """A server that is in one world, then in another."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.asked: list[str] = []

    def serve(self, peer: Peer) -> None:
        while request := peer.request():
            isbn13 = request.split()[1].rpartition(b"/")[2].decode()
            self.asked.append(isbn13)
            world = self.world
            wrong = world is not None and len(self.asked) > world.after
            peer.send(http(world.reply if world and wrong else found(isbn13)))


def context(map_index: int = -1) -> Any:
    instance = {"dag_id": "dag", "run_id": "today", "task_id": "enrich", "map_index": map_index, "max_tries": 2}
    return {"ti": SimpleNamespace(**instance)}


def in_worker(operator: EnrichIsbnsOperator, context: Any) -> dict[str, Any]:
    return operator.execute(context)


FORMS: dict[str, Callable[[EnrichIsbnsOperator, Any], dict[str, Any]]] = {
    "worker": in_worker,
    "triggerer": in_triggerer,
}


def enrich(file: Path, form: str, map_index: int = -1) -> dict[str, Any]:
    operator = EnrichIsbnsOperator(
        task_id="enrich", isbns=list(ISBNS), destination=str(file), deferrable=form == "triggerer"
    )
    return FORMS[form](operator, context(map_index))


def staged(file: Path) -> str:
    """Return what is kept beside a destination."""
    return "".join(each.read_text(encoding="utf-8") for each in file.parent.glob(f".{file.name}.*"))


def ended(file: Path, form: str, world: World, map_index: int = -1) -> None:
    """Enrich in a wrong world, and expect the right end."""
    began = time.monotonic()
    with pytest.raises(Exception) as caught:  # noqa: PT011 what it is, is looked at below
        enrich(file, form, map_index)
    assert time.monotonic() - began < _SOON_SECONDS
    ends = world.error if HAS_RETRY_POLICY else (world.error, AirflowFailException)
    assert isinstance(caught.value, ends), repr(caught.value)
    assert world.advice in str(caught.value)
    assert not file.exists()
    assert '"not_found"' not in staged(file).replace('"not_found":0', "")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", WORLDS)
def test_no_book_that_exists_becomes_not_found(tmp_path: Path, supervisor: Supervisor, name: str, form: str) -> None:
    database, world, file = Database(), WORLDS[name], tmp_path / "books.jsonl"
    with Loopback(database.serve) as server:
        supervisor.connect(
            "mediaops_books_default", connection(server.base, canary_isbn=CANARY, max_attempts=world.tries)
        )
        database.world = world
        ended(file, form, world)
        asked_in_vain = len(database.asked) - world.after

        # A task that is retried too soon loses nothing either.
        store_at("memory://").close()
        database.asked[:] = [""] * world.after
        ended(file, form, world)

        store_at("memory://").close()
        database.world = None
        summary = enrich(file, form)

    assert [row["status"] for row in json_rows(file)] == ["found"] * len(ISBNS)
    assert [row["book"]["isbn13"] for row in json_rows(file)] == ISBNS
    assert (summary["found"], summary["not_found"]) == (len(ISBNS), 0)
    # Each book once, and the witnesses.
    assert asked_in_vain <= 2 * len(ISBNS)


@pytest.mark.parametrize("form", FORMS)
def test_what_was_found_before_is_not_asked_for_again(tmp_path: Path, supervisor: Supervisor, form: str) -> None:
    database, file = Database(), tmp_path / "books.jsonl"
    with Loopback(database.serve) as server:
        # One request at a time: what is answered first is the first of the list.
        fields = {"max_attempts": 1, "requests_per_second": 50}
        supervisor.connect("mediaops_books_default", connection(server.base, canary_isbn=CANARY, **fields))
        database.world = WORLDS["a gateway, later"]
        ended(file, form, database.world)
        before = {isbn for isbn in ISBNS if f'"isbn13":"{isbn}"' in staged(file)}
        database.asked.clear()
        database.world = None
        summary = enrich(file, form)

    assert before
    assert not before & set(database.asked)
    assert summary["resumed"]


@pytest.mark.parametrize("form", FORMS)
def test_mapped_tasks_end_and_resume_each_for_itself(tmp_path: Path, supervisor: Supervisor, form: str) -> None:
    database, world = Database(), WORLDS["wrong path"]
    files = [tmp_path / f"books_{index}.jsonl" for index in range(3)]
    with Loopback(database.serve) as server:
        supervisor.connect("mediaops_books_default", connection(server.base, canary_isbn=CANARY))
        database.world = world
        for index, file in enumerate(files):
            ended(file, form, world, index)
        database.world = None
        for index, file in enumerate(files):
            assert enrich(file, form, index)["found"] == len(ISBNS)


class TestTime:
    """What passes by itself is waited for: in time that is made up, with the retries of a usual connection."""

    def attempts(self, folder: Path, service: Service, **how: Any) -> list[dict[str, int] | MediaOpsError]:
        """Enrich until it succeeds, as a task with a retry every five minutes does; return what each attempt gave."""
        owner = Owner("dag/today/enrich/-1", "digest")
        plan = Enrichment(owner=asdict(owner), destination=str(folder / "books.jsonl"), total=len(ISBNS))

        async def attempt() -> dict[str, int]:
            with plan.dataset().staging(owner) as staging:
                attempt = Attempt(plan, staging, lambda _: None, isbns=ISBNS, clock=loop_clock)
                options = {"max_failures": 0, "resume": attempt.resume, "tries": 5, **how}
                try:
                    async with aclosing(batch_of(service, attempt.rows(), **options)) as updates:
                        async for update in updates:
                            attempt.commit(update)
                except BaseException:
                    attempt.abort()
                    raise
                attempt.finish()
            return staging.summary

        async def run() -> list[dict[str, int] | MediaOpsError]:
            ends: list[dict[str, int] | MediaOpsError] = []
            while not ends or isinstance(ends[-1], MediaOpsError):
                assert len(ends) < 9
                try:
                    ends.append(await attempt())
                except MediaOpsError as error:
                    ends.append(error)
                    assert '"not_found"' not in staged(folder / "books.jsonl").replace('"not_found":0', "")
                    await asyncio.sleep(300.0)
            return ends

        return in_virtual_time(run())

    def between(self, start: float, end: float, reply: Response) -> Service:
        """Return a service that answers with one reply for a time."""
        times: list[float] = []

        def answer(isbn13: str) -> Response:
            times.append(loop_clock())
            return reply if start <= loop_clock() - times[0] < end else found(isbn13)

        return Service(answer)

    @pytest.mark.parametrize(
        ("reply", "error"),
        [
            (replied(b"", 503), ServiceUnavailableError),
            (replied(LIMIT_404, 404), RateLimitedError),
            (replied(LIMIT_429, 429), RateLimitedError),
        ],
    )
    @pytest.mark.parametrize("start", [0.0, 1.5])
    def test_ten_minutes_without_an_answer_lose_no_book(
        self, tmp_path: Path, reply: Response, error: type[MediaOpsError], start: float
    ) -> None:
        service = self.between(start, 600.0, reply)

        *failures, summary = self.attempts(tmp_path, service)

        assert isinstance(summary, dict)
        assert (summary["found"], summary["not_found"]) == (len(ISBNS), 0)
        assert all(isinstance(failure, error) for failure in failures)
        # Each book five times, and again after 10, 40 and 120 seconds.
        assert len(service.asked) <= 5 * 4 * len(ISBNS) * (len(failures) + 1)
        assert [row["book"]["isbn13"] for row in json_rows(tmp_path / "books.jsonl")] == ISBNS

    @pytest.mark.parametrize("start", [0.0, 1.5])
    def test_half_a_minute_without_an_answer_is_waited_out(self, tmp_path: Path, start: float) -> None:
        for number, reply in enumerate((replied(b"", 503), replied(LIMIT_404, 404), replied(LIMIT_429, 429))):
            folder = tmp_path / str(number)

            [summary] = self.attempts(folder, self.between(start, 30.0, reply))

            assert isinstance(summary, dict)
            assert summary["found"] == len(ISBNS)
