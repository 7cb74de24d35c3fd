"""
Worlds in which a 404 is not about the book, in a worker, with bulk requests and in the triggerer, and resumed.

In none of them is a book that exists written as ``not_found``. The task ends soon with an error that says what to
correct, what was found before is kept, and the retry in the right world finds the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from airflow_provider_mediaops.books.not_found import UnvouchedNotFoundError
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
from airflow_provider_mediaops.sandbox.books import sample_isbns
from tests.memory_rates import forget_rates
from tests.unit.book_database import connection
from tests.unit.book_worlds import PROBED, UNPROBED, WITH_CANARY, WITHOUT_CANARY, World, WorldServer
from tests.unit.operators.enrichment import context, json_rows, make
from tests.unit.operators.forms import in_triggerer
from tests.unit.permanent import permanent

if TYPE_CHECKING:
    from tests.unit.conftest import Supervisor

FORMS = ("worker", "bulk", "triggerer")
ISBNS = sample_isbns(12)
CANARY = sample_isbns(13)[-1]
#: Each world with its canary, if there is one.
CASES: list[tuple[World, str | None]] = [
    *((world, CANARY) for world in (*UNPROBED, *PROBED, *WITH_CANARY)),
    *((world, None) for world in WITHOUT_CANARY),
]
#: One of those that end alike, for the forms that make the same of a reply as the first one.
ONE_OF_EACH_END = list({(world.error, world.begins_with, canary): (world, canary) for world, canary in CASES}.values())
GATEWAY_LATER = next(world for world in PROBED if world.name == "gateway, in the middle")
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
    passes = world.error is UnvouchedNotFoundError or issubclass(world.error, TemporaryError)
    fields = {"canary_isbn": canary or "", "max_attempts": 1 if passes else 5}
    supervisor.connect("mediaops_books_default", connection(server.base, **fields))


def enrich(file: Path, form: str) -> dict[str, Any]:
    operator = make(file, isbns=list(ISBNS), deferrable=form == "triggerer", bulk=form == "bulk")
    return in_triggerer(operator, context()) if form == "triggerer" else operator.execute(context())


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


def ended(file: Path, form: str) -> Exception:
    """Enrich in a wrong world; return the error that ends it soon, without a book that is said to be missing."""
    with timers_that_run_out() as waits, pytest.raises(Exception) as caught:  # noqa: PT011 the test looks at it
        enrich(file, form)
    assert max(waits, default=0.0) <= _LONGEST_WAIT_SECONDS
    assert not file.exists()
    assert '"not_found"' not in staged(file).replace('"not_found":0', "")
    # The limit of one attempt is not to be that of the next one.
    forget_rates()
    return caught.value


@pytest.mark.parametrize(
    ("world", "canary", "form"),
    [
        pytest.param(world, canary, form, id=f"{world}{', with a canary' if canary else ''}-{form}", marks=marks)
        for form in FORMS
        for world, canary in (CASES if form == "worker" else ONE_OF_EACH_END)
        for marks in ([] if (world, canary) in ONE_OF_EACH_END and form == "worker" else [pytest.mark.long])
    ],
)
def test_no_book_that_exists_becomes_not_found(
    tmp_path: Path, supervisor: Supervisor, world: World, canary: str | None, form: str
) -> None:
    file = tmp_path / "books.jsonl"
    with WorldServer(world) as server:
        connect(supervisor, server, world, canary)

        error = ended(file, form)
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
