"""Attempts at one dataset that take turns at a store in whatever order a test wants, and die or fail where it wants."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import ObjectStoragePath
from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_mediaops.storage.object_store import ObjectStage, published_in_store
from tests.unit.storage.dying import DeathError
from tests.unit.storage.places import START, owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_mediaops.storage.compaction import Tiers

FILE = "/bucket/d.jsonl"
CLAIM = "/bucket/.d.jsonl.checkpoint"
PARTS = "/bucket/.d.jsonl.parts/"
# So few that lists come in several pages.
PAGE = 3


@dataclass
class World:
    """
    What the attempts share.

    :param rows: how many the dataset is to have.
    :param tiers: how parts are merged.
    """

    rows: int
    tiers: Tiers
    objects: dict[str, Any] = field(default_factory=dict)
    #: Who wrote the claim last.
    holder: str = ""
    now: float = START
    #: How many parts there were at most.
    most: int = 0

    def clock(self) -> float:
        return self.now

    def note(self, path: str, name: str) -> None:
        """Take note of an object that was written."""
        self.holder = name if path == CLAIM else self.holder
        self.most = max(self.most, sum(path.startswith(PARTS) for path in self.objects))

    def published(self) -> list[dict[str, Any]] | None:
        """Give the records of the published file."""
        found = self.objects.get(FILE)
        return None if found is None else [json.loads(line) for line in found.getvalue().splitlines()]


class PacedStore(MemoryFileSystem):  # type: ignore[misc]  # fsspec publishes no types
    """One attempt's way to the objects, which waits for its turn before each request."""

    cachable = False
    store: dict[str, Any]
    pseudo_dirs: list[str]

    def __init__(self, world: World, name: str, turn: Callable[[], bool]) -> None:
        super().__init__()
        self.world, self.name = world, name
        self.store, self.pseudo_dirs = world.objects, [""]
        self._turn = turn

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self._write(path, lambda: MemoryFileSystem.pipe_file(self, path, value, **options))

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        self._write(rpath, lambda: MemoryFileSystem.put_file(self, lpath, rpath, **options))

    def rm_file(self, path: str) -> None:
        self._write(path, lambda: MemoryFileSystem.rm_file(self, path))

    def _write(self, path: str, send: Callable[[], None]) -> None:
        lost = self._turn()
        send()
        self.world.note(path, self.name)
        if lost:
            raise TimeoutError("the reply was lost")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        self._turn()
        content: bytes = super().cat_file(path, start, end, **options)
        return content

    def ls(self, path: str, *, detail: bool) -> list[Any]:
        found: list[str] = []
        while True:
            self._turn()
            after = found[-1] if found else ""
            page = sorted(name for name in self.store if name.startswith(f"{path}/") and name > after)[:PAGE]
            found += page
            if len(page) < PAGE:
                sizes = {name: self.store[name].size if name in self.store else 0 for name in found}
                return [{"name": name, "size": sizes[name]} if detail else name for name in found]


class Actor:
    """
    One attempt, in a thread that goes on only when it is told to.

    :param world: what it shares with others.
    :param name: marks what it writes.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        #: The records that it has found or committed, as far as it knows.
        self.kept: list[dict[str, Any]] = []
        self.ended = False
        self.outcome: BaseException | None = None
        self.fault = ""
        self._dead = False
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        attach("memory", name, fs=PacedStore(world, name, self._turn))
        self.path = ObjectStoragePath(f"memory://{name}@{FILE.removeprefix('/')}")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def step(self, count: int = 1) -> None:
        """Let it do so many requests, or as many as it has."""
        for _ in range(count):
            if self.ended:
                return
            self._go.release()
            self._paused.acquire()

    def finish(self) -> None:
        """Let it come to its end."""
        while not self.ended:
            self.step()

    def die(self) -> None:
        """End it without another request."""
        self._dead = True
        self.finish()
        self._thread.join()
        _STORE_CACHE.pop(f"memory-{self.name}", None)

    def _turn(self) -> bool:
        """Wait for the next turn; say whether its reply is to be lost."""
        self._paused.release()
        self._go.acquire()
        if self._dead:
            raise DeathError
        self.world.now += 1
        fault, self.fault = self.fault, ""
        if fault == "refused":
            raise ConnectionError("the network is gone")
        return fault == "reply lost"

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001  it is looked at in the test's thread
            self.outcome = error
        self.ended = True
        self._paused.release()

    def _work(self) -> None:
        if published_in_store(self.path, owner()) is not None:
            return
        stage = ObjectStage(self.path, owner(), self.world.clock, self.world.tiers)
        try:
            self.kept = [json.loads(line) for line in stage.lines()]
            assert len(self.kept) == stage.extent.rows
            assert stage.state == (self.kept[-1] if self.kept else None)
            while len(self.kept) < self.world.rows:
                self._commit(stage)
            stage.publish(None, {}, None)
        finally:
            stage.close()

    def _commit(self, stage: ObjectStage) -> None:
        for attempt in range(3):
            record = following(self.kept[-1] if self.kept else None, f"{self.name}{attempt}")
            with suppress(OSError):
                stage.append(json.dumps(record).encode() + b"\n", 1, record)
                self.kept.append(record)
                return
        raise ConnectionError("the store does not come back")


def following(last: dict[str, Any] | None, writer: str) -> dict[str, Any]:
    """Give a record that only ever follows this one."""
    before = hashlib.sha256(json.dumps(last).encode()).hexdigest()[:8]
    return {"n": last["n"] + 1 if last else 1, "by": writer, "before": before}


def is_unmixed(records: list[dict[str, Any]]) -> bool:
    """Say whether each record was made to follow the one before it."""
    return all(record == following(last, record["by"]) for last, record in zip([None, *records], records, strict=False))


@contextmanager
def actors(world: World, *names: str) -> Iterator[list[Actor]]:
    """Give attempts that have not begun; in the end they die."""
    made = [Actor(world, name) for name in names]
    try:
        yield made
    finally:
        for actor in made:
            actor.die()


def check_next_attempt(world: World) -> None:
    """Let another attempt go on alone, and look at what it publishes."""
    before = world.published()
    with actors(world, "last") as (last,):
        last.finish()
    assert last.outcome is None
    published = world.published()
    assert published is not None
    assert len(published) == world.rows
    assert is_unmixed(published)
    assert before or sorted(world.objects) == [CLAIM, FILE]


def check_committed(world: World, holder: Actor) -> None:
    """Make sure that an attempt which has the claim still has all that it has committed."""
    if holder.name != world.holder or world.published() is not None:
        return
    with actors(world, "heir") as (heir,):
        while not heir.kept and not heir.ended:
            heir.step()
    assert heir.kept[: len(holder.kept)] == holder.kept
