"""Attempts at one dataset whose requests a test puts into any order; they die or fail at any request it chooses."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import ObjectStoragePath

from airflow_provider_mediaops.exceptions import DestinationInUseError
from airflow_provider_mediaops.storage.errors import finished_meanwhile_error
from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS, Lease
from airflow_provider_mediaops.storage.object_store import ObjectStage, published_in_store
from tests.unit.paced import Paced
from tests.unit.storage.attached import attached
from tests.unit.storage.fake_store import FakeStore
from tests.unit.storage.places import START, companion_of, owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_mediaops.storage.ownership import Owner, Receipt

FILE = "/bucket/d.jsonl"
LEASE = "/bucket/.d.jsonl.checkpoint"
PARTS = "/bucket/.d.jsonl.parts/"
COMPANION = "/bucket/d.changes"
# So few that lists come in several pages.
PAGE = 3


@dataclass
class World:
    """
    The store and the history that the attempts share.

    :param rows: the number of rows of the finished dataset.
    :param conditional: whether the store checks conditions of writes.
    :param sizes: the sizes of segments and of blocks, in bytes.
    :param has_companion: whether each attempt publishes a companion, which holds the last of its records.
    """

    rows: int
    conditional: bool = True
    sizes: dict[str, int] = field(default_factory=dict)
    has_companion: bool = False
    objects: dict[str, Any] = field(default_factory=dict)
    now: float = START
    #: Pairs of an event (a lease acquired or released, a file, a receipt) and the attempt, in order.
    events: list[tuple[str, str]] = field(default_factory=list)
    #: The records that each attempt had committed when another one acquired the lease.
    committed: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    made: list[Actor] = field(default_factory=list)
    #: The largest number of segments at one time.
    most_segments: int = 0

    def clock(self) -> float:
        return self.now

    def client_of(self, name: str, turn: Callable[[], bool]) -> Any:
        """Make the file system through which an attempt reaches the objects."""
        return PacedStore(self, name, turn)

    def note(self, path: str, name: str) -> None:
        """Record that an object was written."""
        if path == FILE:
            self.events.append(("file", name))
        if path == LEASE and path in self.objects:
            lease = Lease.from_bytes(self.objects[path].getvalue(), path)
            kind = "released" if lease.released else "acquired" if lease.owner else "receipt"
            self.events.append((kind, name))
            if kind == "acquired":
                self.committed |= {actor.name: list(actor.kept) for actor in self.made if actor.name != name}
        self.most_segments = max(self.most_segments, sum(path.startswith(PARTS) for path in self.objects))

    def last(self, kind: str) -> str:
        """Return the attempt of the latest event of a kind; empty if there is none."""
        return next((name for each, name in reversed(self.events) if each == kind), "")

    def at(self, kind: str, name: str) -> int:
        """Return the index of an attempt's event; -1 if there is none."""
        return self.events.index((kind, name)) if (kind, name) in self.events else -1

    def published(self) -> list[dict[str, Any]] | None:
        """Return the records of the published file; None if there is no file."""
        found = self.objects.get(FILE)
        return None if found is None else [json.loads(line) for line in found.getvalue().splitlines()]

    def is_pair(self) -> bool:
        """Return whether the companion is that of the published file."""
        found, records = self.objects.get(COMPANION), self.published()
        return records is not None and found is not None and json.loads(found.getvalue()) == records[-1]

    def receipt(self) -> Receipt | None:
        """Return the receipt, if it describes the published file."""
        with client(self) as path:
            receipt = Lease.from_bytes(self.objects[LEASE].getvalue(), LEASE).last_receipt
            return receipt if receipt and published_in_store(path, receipt.owner) else None


class PacedStore(FakeStore):
    """One attempt's client of the store; it waits for its turn before each request."""

    def __init__(self, world: World, name: str, turn: Callable[[], bool]) -> None:
        super().__init__(conditional=world.conditional, clock=world.clock, objects=world.objects)
        self.world, self.name, self._turn = world, name, turn
        self.on_block = turn

    def _replace(self, path: str, value: bytes, **options: Any) -> None:
        self._write(path, lambda: FakeStore._replace(self, path, value, **options))

    def rm(self, path: list[str], **_: Any) -> None:
        for each in path:
            self.rm_file(each)

    def rm_file(self, path: str) -> None:
        self._write(path, lambda: FakeStore.rm_file(self, path))

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

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        self._turn()
        if path not in self.store:
            raise FileNotFoundError(path)
        return self._described(path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:  # noqa: FBT001, FBT002  as fsspec has it
        found: list[dict[str, Any]] = []
        while True:
            self._turn()
            after = found[-1]["name"] if found else ""
            names = sorted(name for name in self.store if name.startswith(f"{path}/") and name > after)[:PAGE]
            found += map(self._described, names)
            if len(names) < PAGE:
                return found


@contextmanager
def client(world: World, name: str = "client", turn: Callable[[], bool] = bool) -> Iterator[ObjectStoragePath]:
    """Attach a client for one attempt; return the destination's path."""
    with attached(world.client_of(name, turn), name):
        yield ObjectStoragePath(f"memory://{name}@{FILE.removeprefix('/')}")


class Actor(Paced):
    """
    One attempt, in a thread that makes one request for each step the test allows.

    :param world: the store that it shares with other attempts.
    :param name: its name in the history and in the records that it writes.
    :param who: the task.
    """

    def __init__(self, world: World, name: str, who: Owner) -> None:
        self.world, self.name, self.owner = world, name, who
        #: The records that it has read or committed, as far as it knows.
        self.kept: list[dict[str, Any]] = []
        super().__init__()
        world.made.append(self)

    def work(self) -> None:
        with client(self.world, self.name, self._turn) as path:
            self._work(path)

    def _turn(self) -> bool:
        """Wait for the next turn; return whether the reply of its request is lost."""
        fault = self.pause()
        self.world.now += 0.1
        if fault == "refused":
            raise ConnectionError("the network is gone")
        return fault == "reply lost"

    def _work(self, path: ObjectStoragePath) -> None:
        if published_in_store(path, self.owner) is not None:
            return
        beside = ObjectStoragePath(f"memory://{self.name}@{COMPANION.removeprefix('/')}")
        stage = ObjectStage(path, self.owner, self.world.clock, companion=beside, **self.world.sizes)
        try:
            if self.world.has_companion and stage.current_receipt and stage.current_receipt.owner == self.owner:
                # What would be compared is its own; `published_in_store` finds it next time.
                raise finished_meanwhile_error("it")
            self.kept = [json.loads(line) for line in stage.lines()]
            assert len(self.kept) == stage.extent.rows
            assert stage.state == (self.kept[-1] if self.kept else None)
            while len(self.kept) < self.world.rows:
                self._commit(stage)
            last = json.dumps(self.kept[-1])
            companion = companion_of(str(beside), last)
            stage.publish(None, {"by": self.name}, None, companion if self.world.has_companion else None)
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
    """Return a record that can only follow this one."""
    before = hashlib.sha256(json.dumps(last).encode()).hexdigest()[:8]
    return {"n": last["n"] + 1 if last else 1, "by": writer, "before": before}


def is_unmixed(records: list[dict[str, Any]]) -> bool:
    """Return whether each record was made to follow the one before it."""
    return all(record == following(last, record["by"]) for last, record in zip([None, *records], records, strict=False))


@contextmanager
def actors(world: World, **owners: Owner) -> Iterator[list[Actor]]:
    """Yield attempts that have not begun; end them with the block."""
    made = [Actor(world, name, who) for name, who in owners.items()]
    try:
        yield made
    finally:
        for actor in made:
            actor.die()


def check_published(world: World, older: Actor, newer: Actor) -> None:
    """
    Assert that two attempts have left one whole file, and a receipt that describes it.

    :param older: the attempt that acquired first.
    :param newer: the other attempt.
    """
    file, writer = world.published(), world.last("file")
    assert file is None or (len(file) == world.rows and is_unmixed(file)), "mixed"
    receipts = [world.at("receipt", actor.name) for actor in (older, newer)]
    if world.conditional and older.outcome is None and newer.outcome is None and -1 not in receipts:
        assert receipts[0] < world.at("acquired", newer.name), "both think they won"
    if writer == newer.name:
        assert file == newer.kept
    late = writer == older.name and world.at("file", newer.name) >= 0
    if late:
        # A file has replaced a newer one. Without conditions this can happen within one request, and raises an error.
        assert not world.conditional, "older over newer"
        assert isinstance(older.outcome, DestinationInUseError), "in silence"
    receipt = world.receipt() if world.last("receipt") else None
    if receipt and not late:
        assert receipt.summary["by"] == writer, "the receipt describes another file"


def check_resumed(world: World, older: Actor, newer: Actor) -> None:
    """Assert that the newer attempt of a task has every record that the older had committed before."""
    if world.at("acquired", newer.name) >= 0 and world.at("receipt", older.name) < 0 and newer.kept:
        before = world.committed[older.name]
        assert newer.kept[: len(before)] == before, "a committed row is lost"


def check_next_attempt(world: World) -> None:
    """Run another attempt alone; assert that it publishes the dataset and leaves nothing behind."""
    with actors(world, last=owner()) as (last,):
        last.finish()
    assert last.outcome is None
    published = world.published()
    assert published is not None
    assert len(published) == world.rows
    assert is_unmixed(published)
    assert not world.has_companion or world.is_pair(), "one without the other"
    # An attempt that died after it published may have left objects, and so may one of two with the same epoch.
    world.now += STALE_AFTER_SECONDS
    with actors(world, cleaner=owner("cleaner")) as (cleaner,):
        cleaner.finish()
    assert sorted(world.objects) == [LEASE, *([COMPANION] if world.has_companion else []), FILE]
    assert not world.has_companion or world.is_pair(), "one without the other"


def check_committed(world: World, holder: Actor) -> None:
    """Assert that the next attempt finds everything that the holder of the lease has committed."""
    if world.published() is not None or holder.name != world.last("acquired"):
        return
    with actors(world, heir=owner()) as (heir,):
        while not heir.kept and not heir.ended:
            heir.step()
    assert heir.kept[: len(holder.kept)] == holder.kept
