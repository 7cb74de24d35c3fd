"""The tasks that ran meanwhile, in the tab of a task instance: read from the JSON file beside the text."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
from airflow_provider_mediaops.plugin import report_page
from tests.unit.cluster.task_values import NODE, TASKS
from tests.unit.plugin.airflow_world import text
from tests.unit.storage.attached import attached

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.plugin.airflow_world import World

NOT_SHOWN = "The tasks that ran meanwhile are not shown"


def add(world: World, tasks: RunningTasks | None, *, run_id: str = "r", **arguments: Any) -> tuple[str, Path]:
    """Add a task instance that has written a text, and the JSON file with tasks beside it."""
    url = world.add(run_id=run_id, written=text(), running_tasks=True, **arguments)
    document = world.folder / run_id / "capture.json"
    document.write_bytes(Capture(text(), running_tasks=tasks).content("json"))
    return url, document


def test_they_are_shown(world: World) -> None:
    url, _ = add(world, TASKS)
    page = world.get(url).text
    assert "Who was behind it" in page
    assert "report:nightly-margin" in page
    assert NOT_SHOWN not in page


def test_each_capture_of_a_series_has_its_own(world: World) -> None:
    destination = str(world.folder / "c.txt")
    url = world.add(run_id="r", running_tasks=True, destination=destination, captures=2, every=1)
    for number in (1, 2):
        (world.folder / f"c.{number}.txt").write_text(text())
        tasks = RunningTasks(nodes=(replace(NODE, node=f"node-of-{number}"),))
        (world.folder / f"c.{number}.json").write_bytes(Capture(text(), running_tasks=tasks).content("json"))
    page = world.get(url).text
    assert "node-of-1, capture 1" in page
    assert "node-of-2, capture 2" in page


def test_the_file_of_a_task_that_did_not_ask_for_them_is_not_read(world: World) -> None:
    url = world.add(run_id="r", written=text())
    (world.folder / "r" / "capture.json").write_bytes(Capture(text(), running_tasks=TASKS).content("json"))
    page = world.get(url).text
    assert "Who was behind it" not in page
    assert NOT_SHOWN not in page


class TestNotShown:
    def refused(self, world: World, url: str) -> str:
        page = world.get(url).text
        assert "Work.step" in page
        assert "Who was behind it" not in page
        assert NOT_SHOWN in page
        return page

    def test_a_missing_file_is_named(self, world: World) -> None:
        url, document = add(world, TASKS)
        document.unlink()
        assert f"There is no file {document}" in self.refused(world, url)

    def test_a_task_that_writes_no_json_says_so(self, world: World) -> None:
        url, _ = add(world, TASKS, formats=["txt", "html"])
        assert "Add json to formats." in self.refused(world, url)

    def test_a_file_of_an_earlier_capture_is_not_mixed_with_this_text(self, world: World) -> None:
        url, document = add(world, TASKS)
        os.utime(document, (1_700_000_000, 1_700_000_000))
        assert f"{document} is older than the text beside it" in self.refused(world, url)

    def test_a_file_without_tasks_says_so(self, world: World) -> None:
        url, document = add(world, None)
        assert f"{document} holds no tasks." in self.refused(world, url)

    def test_a_file_of_something_else_is_not_shown(self, world: World) -> None:
        url, document = add(world, TASKS)
        document.write_text("the content of another file")
        assert "the content of another file" not in self.refused(world, url)

    def test_more_than_a_page_reads_is_left_out(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(report_page, "MAX_START_BYTES", 1_000)
        url, _ = add(world, TASKS)
        assert "says more about tasks than this page reads" in self.refused(world, url)


class CountingStore(MemoryFileSystem):  # type: ignore[misc] # it has no types
    """An object store that keeps how far each of its files was read."""

    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self.read: dict[str, int] = {}

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        self.read[path.rpartition("/")[2]] = end or 0
        content: bytes = super().cat_file(path, start=start, end=end, **options)
        return content


@pytest.fixture
def counting() -> Iterator[CountingStore]:
    """Attach such a store as ``memory://counted@…``."""
    with attached(CountingStore(), "counted") as store:
        yield store


def test_of_a_file_in_an_object_store_the_beginning_is_read(
    world: World, counting: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = Capture(text(), running_tasks=TASKS).content("json") + b" " * 100_000
    counting.pipe("/bucket/a.txt", text().encode())
    counting.pipe("/bucket/a.json", document)
    url = world.add(destination="memory://counted@bucket/a.txt", running_tasks=True)
    monkeypatch.setattr(report_page, "MAX_START_BYTES", 8_000)
    assert "report:nightly-margin" in world.get(url).text
    assert counting.read == {"a.txt": len(text()), "a.json": 8_000}
