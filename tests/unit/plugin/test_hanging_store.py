"""A store that hangs, behind the pages: they say so, and other pages are served."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.unit.plugin.airflow_world import LIST_URL, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.plugin.airflow_world import World

MOST_SECONDS = 120


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let ``memory://`` hang until the test is over; the event says that it was asked."""
    gate, asked = threading.Event(), threading.Event()

    def info(self: MemoryFileSystem, path: str, **_: Any) -> Any:
        asked.set()
        gate.wait(MOST_SECONDS)
        raise FileNotFoundError(path)

    monkeypatch.setattr(MemoryFileSystem, "info", info)
    yield asked
    gate.set()


def test_the_tab_says_that_the_store_does_not_answer(world: World, hanging: threading.Event) -> None:
    world.seconds = 0.2
    response = world.get(world.add(destination="memory://bucket/a.txt"))
    assert response.status_code == 503
    assert "Memory://bucket did not answer within 0.2 s" in response.text
    assert "Look again" in response.text
    assert hanging.is_set()


def test_other_pages_are_served_while_a_store_hangs(world: World, hanging: threading.Event) -> None:
    stuck = [world.add(run_id=f"stuck-{number}", destination=f"memory://bucket/{number}.txt") for number in range(6)]
    fine = world.add(run_id="fine", written=text())
    with world.reader("*") as browser:
        waiting = [threading.Thread(target=browser.get, args=(url,), daemon=True) for url in stuck]
        for thread in waiting:
            thread.start()
        assert hanging.wait(MOST_SECONDS)
        assert "Work.step" in browser.get(fine).text


def test_the_list_shows_the_rows_of_other_stores(world: World, hanging: threading.Event) -> None:
    world.add(run_id="fine", written=text())
    with world.reader("*") as browser:
        # The list has read the row once: it is not read again.
        assert "Work.step" in browser.get(LIST_URL).text
    world.seconds = 3.0
    for number in range(6):
        world.add(run_id=f"stuck-{number}", destination=f"memory://bucket/{number}.txt")
    page = world.get(LIST_URL).text
    assert page.count("memory://bucket did not answer within") == 6
    assert "fine" in page
    assert hanging.is_set()
