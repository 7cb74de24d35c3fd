"""The two kinds of destination of a dataset, local and on an object store, with one way to inspect their files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.formats import FlatView
from airflow_provider_mediaops.storage.ownership import Owner

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.dataset import Staging
    from tests.unit.storage.fake_store import FakeStore

VIEW = FlatView(columns={"id": str, "n": int}, flatten=lambda record: record)
START = 1_800_000_000.0


class StoppedError(Exception):
    """Raised by a test to end an attempt."""


@contextmanager
def stopped() -> Iterator[None]:
    """Expect the attempt to end with :class:`StoppedError`."""
    with pytest.raises(StoppedError):
        yield


def owner(task: str = "dag/run/task/-1", parameters: str = "p", clears: int = 0, run_start: str = "") -> Owner:
    return Owner(task, parameters, clears, run_start)


def rows(first: int, count: int = 2) -> list[dict[str, Any]]:
    """Return a few records."""
    return [{"id": f"r{number}", "n": number} for number in range(first, first + count)]


@dataclass
class Place:
    """
    A folder on the local disk, or below a bucket.

    :param names: returns the names of all files there, the hidden ones included.
    """

    prefix: str
    names: Callable[[], list[str]]
    read: Callable[[str], bytes]
    remove: Callable[[str], None]
    write: Callable[[str, bytes], object]
    now: float = field(default=START)

    def dataset(self, name: str = "d.jsonl", **options: Any) -> Dataset:
        return Dataset(f"{self.prefix}/{name}", view=VIEW, clock=lambda: self.now, **options)

    def lines(self, name: str = "d.jsonl") -> list[Any]:
        """Return the records in a file of JSON lines."""
        return [json.loads(line) for line in self.read(name).splitlines()]

    def visible(self) -> list[str]:
        """Return the names of the files that are not hidden."""
        return [name for name in self.names() if not name.startswith(".")]

    def staged(self, who: Owner | None = None, name: str = "d.jsonl") -> list[str]:
        """Return the names of what an owner has staged."""
        folder = f".{name}.staging/{(who or owner()).folder}/"
        return [each.removeprefix(folder) for each in self.names() if each.startswith(folder)]

    def is_settled(self, name: str = "d.jsonl") -> bool:
        """Return whether of each owner nothing is left but the last frame."""
        staged = [each for each in self.names() if each.startswith(f".{name}.staging/") and each.count("/") > 1]
        return all(each.endswith("-last") for each in staged)


def local_place(folder: Path) -> Place:
    return Place(
        str(folder),
        lambda: sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()),
        lambda name: (folder / name).read_bytes(),
        lambda name: (folder / name).unlink(),
        lambda name, content: (folder / name).write_bytes(content),
        # Files have the time of the system.
        time.time(),
    )


def store_place(store: FakeStore) -> Place:
    top = "/bucket/top/"
    place = Place(
        f"memory://shelf@bucket{top.removeprefix('/bucket').rstrip('/')}",
        lambda: [name.removeprefix(top) for name in store.names],
        lambda name: store.cat_file(top + name),
        lambda name: store.rm_file(top + name),
        lambda name, content: store.pipe_file(top + name, content),
    )
    store.clock = lambda: place.now
    return place


def attempt(dataset: Dataset, who: Owner, *batches: list[dict[str, Any]], stop: bool = False) -> Staging:
    """Commit batches, each with its number as the state; then fail, or publish."""
    with ExitStack() as stack:
        if stop:
            stack.enter_context(stopped())
        staging = stack.enter_context(dataset.staging(who))
        for batch in batches:
            staging.commit(batch, {"batch": staging.rows})
        if stop:
            raise StoppedError
    return staging
