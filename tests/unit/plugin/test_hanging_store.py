"""A store that hangs holds a few threads, and nobody else; the pages say so, and others are served."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_mediaops.plugin.reader_threads import ReaderThreads
from airflow_provider_mediaops.plugin.rendered_fields import NoAnswerError
from tests.unit.plugin.airflow_world import LIST_URL, START, text
from tests.unit.storage.attached import attached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.plugin.airflow_world import World

MOST_SECONDS = 120


class HangingStore(MemoryFileSystem):  # type: ignore[misc] # it has no types
    """A store that answers nothing until it is let go."""

    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.let_go = threading.Event()

    def info(self, path: str, **_: Any) -> Any:
        self.asked.set()
        self.let_go.wait(MOST_SECONDS)
        raise FileNotFoundError(path)


@pytest.fixture
def hanging() -> Iterator[HangingStore]:
    """Attach a store that hangs as ``memory://hung@…``."""
    with attached(HangingStore(), "hung") as store:
        yield store
        store.let_go.set()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Return what hanging work waits for; it is opened when the test is over."""
    gate = threading.Event()
    yield gate
    gate.set()


def threads(*, threads: int = 8, per_store: int = 2, waiting: int = 10, stuck_after: float = 0) -> ReaderThreads:
    return ReaderThreads(max_threads=threads, max_per_store=per_store, max_waiting=waiting, stuck_after=stuck_after)


async def hang(pool: ReaderThreads, gate: threading.Event, store: str, number: int) -> list[asyncio.Task[None]]:
    """Give a store so much work that hangs; return once all of it has begun."""
    begun = threading.Semaphore(0)

    def work() -> None:
        begun.release()
        gate.wait(MOST_SECONDS)

    tasks = [asyncio.create_task(pool.run(store, work, seconds=MOST_SECONDS)) for _ in range(number)]
    for _ in range(number):
        assert await asyncio.to_thread(begun.acquire, timeout=MOST_SECONDS)
    return tasks


def test_the_tab_says_that_the_store_does_not_answer(world: World, hanging: HangingStore) -> None:
    world.seconds = 0.2
    response = world.get(world.add(destination="memory://hung@bucket/a.txt"))
    assert response.status_code == 503
    assert "memory://hung@bucket did not answer in time. Try again later." in response.text
    assert "Look again" in response.text
    # The work may begin after the page has given up.
    assert hanging.asked.wait(MOST_SECONDS)


def test_other_pages_are_served_while_a_store_hangs(world: World, hanging: HangingStore) -> None:
    stuck = [
        world.add(run_id=f"stuck-{number}", destination=f"memory://hung@bucket/{number}.txt") for number in range(6)
    ]
    fine = world.add(run_id="fine", written=text())
    with world.reader("*") as browser:
        waiting = [threading.Thread(target=browser.get, args=(url,), daemon=True) for url in stuck]
        for thread in waiting:
            thread.start()
        assert hanging.asked.wait(MOST_SECONDS)
        assert "Work.step" in browser.get(fine).text
        hanging.let_go.set()
        for thread in waiting:
            thread.join(MOST_SECONDS)
            assert not thread.is_alive()


def test_the_list_has_rows_for_what_does_not_answer(world: World, hanging: HangingStore) -> None:
    world.seconds = 0.5
    for number in range(6):
        world.add(run_id=f"stuck-{number}", destination=f"memory://hung@bucket/{number}.txt")
    response = world.get(LIST_URL)
    assert response.status_code == 200
    assert response.text.count("memory://hung@bucket did not answer in time") == 6
    # The work may begin after the page has given up.
    assert hanging.asked.wait(MOST_SECONDS)


@pytest.mark.usefixtures("hanging")
def test_page_whose_earlier_capture_is_in_a_store_that_hangs_says_so_and_shows_its_own(world: World) -> None:
    # Its own capture, on a disk, is read within the same limit.
    world.seconds = 5.0
    world.add(run_id="earlier", destination="memory://hung@bucket/a.txt", ended=START - timedelta(days=1))
    page = world.get(world.add(run_id="later", written=text()), before="earlier")
    assert page.status_code == 200
    assert "The capture of earlier cannot be shown: memory://hung@bucket did not answer in time" in page.text
    assert "Work.step" in page.text


async def test_work_that_ends_its_thread_is_an_error_and_leaves_room_for_the_next() -> None:
    # As a panic of a library in Rust does, which is not an Exception.
    pool = threads(per_store=1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="The work ended by SystemExit"):
            await pool.run("a", sys.exit, seconds=MOST_SECONDS)
    assert await pool.run("a", lambda: 42, seconds=MOST_SECONDS) == 42


async def test_a_store_that_is_stuck_is_not_asked_again_until_it_answers(gate: threading.Event) -> None:
    pool = threads()
    hanging = await hang(pool, gate, "a", 2)
    asked: list[str] = []
    with pytest.raises(NoAnswerError, match="a has not answered the last requests, and was not asked again"):
        await pool.run("a", lambda: asked.append("too early"), seconds=MOST_SECONDS)
    gate.set()
    await asyncio.gather(*hanging)
    await pool.run("a", lambda: asked.append("now"), seconds=MOST_SECONDS)
    assert asked == ["now"]


async def test_too_much_waiting_work_is_refused_at_once(gate: threading.Event) -> None:
    pool = threads(waiting=1, stuck_after=MOST_SECONDS)
    hanging = await hang(pool, gate, "a", 2)
    waiting = asyncio.create_task(pool.run("a", lambda: None, seconds=MOST_SECONDS))
    await asyncio.sleep(0)
    with pytest.raises(NoAnswerError, match="was not asked: too many pages are waiting"):
        await pool.run("a", lambda: None, seconds=MOST_SECONDS)
    gate.set()
    await asyncio.gather(*hanging, waiting)


async def test_there_are_never_more_threads(gate: threading.Event) -> None:
    # Those of other tests that have not ended yet.
    others = set(threading.enumerate())
    pool = threads(threads=3, per_store=2, stuck_after=MOST_SECONDS)
    hanging = [*await hang(pool, gate, "a", 2), *await hang(pool, gate, "b", 1)]
    fourth = asyncio.create_task(pool.run("c", lambda: "answer", seconds=MOST_SECONDS))
    await asyncio.sleep(0)
    names = [thread.name for thread in threading.enumerate() if thread not in others]
    assert names.count("mediaops-page") == 3
    gate.set()
    assert await fourth == "answer"
    await asyncio.gather(*hanging)


async def test_work_whose_reader_has_gone_is_not_begun(gate: threading.Event) -> None:
    pool = threads(stuck_after=MOST_SECONDS)
    hanging = await hang(pool, gate, "a", 2)
    begun: list[int] = []
    with pytest.raises(NoAnswerError):
        await pool.run("a", lambda: begun.append(1), seconds=0.01)
    gate.set()
    await asyncio.gather(*hanging)
    await pool.run("a", lambda: None, seconds=MOST_SECONDS)
    assert not begun


async def test_a_reader_whose_thread_cannot_start_is_told_and_the_next_one_is_served(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = threads(threads=1, stuck_after=MOST_SECONDS)
    hanging = await hang(pool, gate, "a", 1)
    waiting = [asyncio.create_task(pool.run(store, lambda: 42, seconds=MOST_SECONDS)) for store in "bc"]
    await asyncio.sleep(0)
    start = threading.Thread.start
    refused: list[str] = []

    def fails_once(thread: threading.Thread) -> None:
        if thread.name == "mediaops-page" and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fails_once)
    gate.set()
    with pytest.raises(RuntimeError, match="can't start"):
        await waiting[0]
    assert await waiting[1] == 42
    await asyncio.gather(*hanging)
