"""
Worlds in which a 404 is not about the book, in a worker, with bulk requests and in the triggerer, mapped and resumed.

In none of them is a book that exists written as ``not_found``. The task ends soon with an error that says what to
correct, what was found before is kept, and the retry in the right world finds the rest.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, contextmanager
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from airflow_provider_mediaops.books.not_found import UnvouchedNotFoundError
from airflow_provider_mediaops.enrichment.attempt import Attempt, Enrichment
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
    PermissionDeniedError,
    RateLimitedError,
    ServiceUnavailableError,
    TemporaryError,
)
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns
from airflow_provider_mediaops.storage.ownership import Owner
from tests.memory_rates import forget_rates
from tests.unit.book_database import LIMIT_404, LIMIT_429, connection, found, no_such_book, replied
from tests.unit.book_worlds import PROBED, UNPROBED, WITH_CANARY, WITHOUT_CANARY, World, WorldServer
from tests.unit.books.batch.service import Service, batch_of
from tests.unit.books.batch.service import clock as loop_clock
from tests.unit.operators.enrichment import in_triggerer, json_rows
from tests.unit.permanent import permanent
from tests.unit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_provider_mediaops.http.exchange import Response
    from tests.unit.conftest import Supervisor

ISBNS = sample_isbns(12)
CANARY = sample_isbns(13)[-1]
#: Each world with its canary, if there is one.
CASES: list[tuple[World, str | None]] = [
    *((world, CANARY) for world in (*UNPROBED, *PROBED, *WITH_CANARY)),
    *((world, None) for world in WITHOUT_CANARY if world.error),
]
#: One of those that end alike, for the forms that make the same of a reply as the first one.
ONE_OF_EACH_END = list({(world.error, world.begins_with, canary): (world, canary) for world, canary in CASES}.values())
WRONG_PATH = next(world for world in PROBED if world.name == "wrong path")
GATEWAY_LATER = next(world for world in PROBED if world.name == "gateway, in the middle")
SMALL = next(world for world in WITHOUT_CANARY if not world.error)
# The error says what to look at.
ADVICE: dict[type[MediaOpsError] | None, str] = {
    InvalidConnectionError: "base address",
    UnvouchedNotFoundError: "set canary_isbn",
    InvalidReplyError: "base address",
    AuthenticationError: "plan",
    PermissionDeniedError: "plan",
    RateLimitedError: "limit",
    ServiceUnavailableError: "book database",
}
# So long may a task wait for the last answers, or before it tries a book again. One that goes on in a wrong world waits
# 40 s before it tries the book once more, and for ever longer, up to 30 s, before it asks for a probe again.
_LONGEST_WAIT_SECONDS = 10.0


def connect(supervisor: Supervisor, server: WorldServer, world: World, canary: str | None = CANARY) -> None:
    # What passes by itself is waited for, by default for minutes. Anything else ends the task whatever the retries.
    passes = world.error in (None, UnvouchedNotFoundError) or issubclass(world.error, TemporaryError)
    fields = {"canary_isbn": canary or "", "max_attempts": 1 if passes else 5}
    supervisor.connect("mediaops_books_default", connection(server.base, **fields))


def context(map_index: int = -1) -> Any:
    instance = {"dag_id": "dag", "run_id": "today", "task_id": "enrich", "map_index": map_index, "max_tries": 2}
    return {"ti": SimpleNamespace(**instance)}


def in_worker(operator: EnrichIsbnsOperator, context: Any) -> dict[str, Any]:
    return operator.execute(context)


FORMS: dict[str, Callable[[EnrichIsbnsOperator, Any], dict[str, Any]]] = {
    "worker": in_worker,
    "bulk": in_worker,
    "triggerer": in_triggerer,
}


def enrich(file: Path, form: str, map_index: int = -1) -> dict[str, Any]:
    how: Any = {"deferrable": form == "triggerer", "bulk": form == "bulk"}
    operator = EnrichIsbnsOperator(task_id="enrich", isbns=list(ISBNS), destination=str(file), **how)
    return FORMS[form](operator, context(map_index))


def as_the_task_ends(cls: type[MediaOpsError]) -> type[Exception]:
    return cls if issubclass(cls, TemporaryError) else permanent(cls)


def staged(file: Path) -> str:
    """Return what is kept beside a destination."""
    return "".join(each.read_text(encoding="utf-8") for each in file.parent.glob(f".{file.name}.staging/*/*"))


@contextmanager
def timers_that_run_out() -> Iterator[list[float]]:
    """Note the seconds of each timer of an event loop that runs out within the block."""
    call_later, seconds = asyncio.BaseEventLoop.call_later, list[float]()

    def noting(loop: asyncio.BaseEventLoop, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        def run_out() -> None:
            seconds.append(delay)
            callback(*args)

        return call_later(loop, delay, run_out, context=context)

    with mock.patch.object(asyncio.BaseEventLoop, "call_later", noting):
        yield seconds


def ended(file: Path, form: str, map_index: int = -1) -> Exception:
    """Enrich in a wrong world; return the error that ends it soon, without a book that is said to be missing."""
    with timers_that_run_out() as waits, pytest.raises(Exception) as caught:  # noqa: PT011 the test looks at it
        enrich(file, form, map_index)
    assert max(waits, default=0.0) <= _LONGEST_WAIT_SECONDS
    assert not file.exists()
    assert '"not_found"' not in staged(file).replace('"not_found":0', "")
    # The limit of one attempt is not to be that of the next one.
    forget_rates()
    return caught.value


@pytest.mark.parametrize(
    ("world", "canary", "form"),
    [
        pytest.param(world, canary, form, id=f"{world}{', with a canary' if canary else ''}-{form}")
        for form in FORMS
        for world, canary in (CASES if form == "worker" else ONE_OF_EACH_END)
    ],
)
def test_no_book_that_exists_becomes_not_found(
    tmp_path: Path, supervisor: Supervisor, world: World, canary: str | None, form: str
) -> None:
    file = tmp_path / "books.jsonl"
    with WorldServer(world) as server:
        connect(supervisor, server, world, canary)

        error = ended(file, form)
        assert world.error is not None
        assert type(error) is as_the_task_ends(world.error), repr(error)
        assert ADVICE[world.error] in str(error)
        # Each book once or twice, and the probes.
        assert len(server.asked) <= 3 * len(ISBNS)

        # A task that is retried too soon loses nothing either.
        assert type(ended(file, form)) is as_the_task_ends(world.retry_error or world.error)

        server.mends_with = 0
        summary = enrich(file, form)

    assert [row["book"]["isbn13"] for row in json_rows(file)] == ISBNS
    assert (summary["found"], summary["not_found"]) == (len(ISBNS), 0)


@pytest.mark.parametrize("form", FORMS)
def test_catalogue_that_lacks_the_books_says_so_if_the_quota_confirms_it(
    tmp_path: Path, supervisor: Supervisor, form: str
) -> None:
    file = tmp_path / "books.jsonl"
    with WorldServer(SMALL) as server:
        connect(supervisor, server, SMALL, canary=None)

        assert enrich(file, form)["not_found"] == len(ISBNS)


# A bulk request finds all of them or none.
@pytest.mark.parametrize("form", ["worker", "triggerer"])
def test_book_found_before_is_not_asked_for_again(tmp_path: Path, supervisor: Supervisor, form: str) -> None:
    file = tmp_path / "books.jsonl"
    with WorldServer(replace(GATEWAY_LATER, begins_with=5)) as server:
        connect(supervisor, server, GATEWAY_LATER)
        ended(file, form)
        before = {isbn for isbn in ISBNS if f'"isbn13":"{isbn}"' in staged(file)}
        server.asked.clear()
        server.mends_with = 0
        summary = enrich(file, form)

    assert before
    assert not before & {path.rpartition("/")[2] for path in server.asked}
    assert summary["resumed"]


@pytest.mark.parametrize("form", FORMS)
def test_mapped_tasks_end_and_resume_each_for_itself(tmp_path: Path, supervisor: Supervisor, form: str) -> None:
    files = [tmp_path / f"books_{index}.jsonl" for index in range(3)]
    with WorldServer(WRONG_PATH) as server:
        connect(supervisor, server, WRONG_PATH)
        for index, file in enumerate(files):
            assert "base address" in str(ended(file, form, index))
        server.mends_with = 0
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


class _KilledError(Exception):
    """The worker is gone."""


FOREIGN_404, CLEAR_404 = replied({"message": "no Route matched"}, 404), no_such_book()
DOUBTED = {"foreign": FOREIGN_404, "limit": replied(LIMIT_404, 404), "clear": CLEAR_404}


class TestDoubtOfAKilledAttempt:
    """An attempt learns which words of a 404 are not to be believed, and is killed; its retry knows them."""

    def statuses(self, folder: Path, first: Service, second: Service, words: str | None) -> list[str]:
        """Enrich four books until a doubt is committed, and again after the kill; return what the rows say."""
        owner = Owner("dag/today/enrich/-1", "digest")
        destination = folder / "books.jsonl"
        plan = Enrichment(owner=asdict(owner), destination=str(destination), total=4, max_failures=9)

        async def attempt(service: Service, *, is_killed: bool) -> None:
            with plan.dataset().staging(owner) as staging:
                attempt = Attempt(plan, staging, lambda _: None, isbns=ISBNS[:4], clock=loop_clock)
                options: dict[str, Any] = {"max_failures": 9, "resume": attempt.resume, "tries": 5}
                async with aclosing(batch_of(service, attempt.rows(), **options)) as updates:
                    async for update in updates:
                        attempt.commit(update)
                        knows = words in update.doubts["disproved"] if words else update.doubts["speaks_clearly"]
                        if is_killed and knows:
                            raise _KilledError
                assert not is_killed
                attempt.finish()

        with pytest.raises(_KilledError):
            in_virtual_time(attempt(first, is_killed=True))
        assert not destination.exists()
        in_virtual_time(attempt(second, is_killed=False))
        return [row["status"] for row in json_rows(destination)]

    @pytest.mark.parametrize("words", DOUBTED)
    def test_words_that_a_known_book_got_make_no_book_missing_after_the_kill(self, tmp_path: Path, words: str) -> None:
        _, *lost, last = ISBNS[:4]
        asked: list[str] = []

        def spoilt(isbn13: str) -> Response:
            asked.append(isbn13)
            is_probe = asked.count(isbn13) > 1
            return DOUBTED[words] if is_probe or isbn13 in lost else found(isbn13)

        # The probe is the book found last. The last row takes its time, so that it is none.
        first = Service(spoilt, latency={last: 900.0})
        second = Service(lambda isbn13: DOUBTED[words] if isbn13 in lost else found(isbn13))

        assert self.statuses(tmp_path, first, second, words) == ["found", "failed", "failed", "found"]

    def test_clear_words_of_the_attempt_before_make_other_words_no_proof(self, tmp_path: Path) -> None:
        missing, lost, *_ = ISBNS
        first = Service(lambda isbn13: CLEAR_404 if isbn13 == missing else found(isbn13), latency={lost: 900.0})
        second = Service(lambda isbn13: FOREIGN_404 if isbn13 == lost else found(isbn13))

        assert self.statuses(tmp_path, first, second, None) == ["not_found", "failed", "found", "found"]
