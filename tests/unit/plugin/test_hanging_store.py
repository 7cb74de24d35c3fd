"""A store that hangs holds a few threads, and nobody else; the pages say so, and others are served."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.unit.plugin.airflow_world import LIST_URL, START, text
from tests.unit.storage.fake_store import attached

if TYPE_CHECKING:
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
