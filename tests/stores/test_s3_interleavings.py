"""Two attempts of one task at one destination on a real server, with a switch between their requests."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.storage.store_objects import ConflictError, StoreObjects
from tests.stores.paced_client import PacedClient
from tests.unit.storage.interleaving import interleave, requests_of
from tests.unit.storage.places import owner
from tests.unit.storage.turns import COMPANION, FILE, LEASE, PARTS, World, actors, client

if TYPE_CHECKING:
    from collections.abc import Callable


class ServerObjects(Mapping[str, Any]):
    """The objects of the bucket, by the paths that the harness uses."""

    def __init__(self, files: Any) -> None:
        self.files = files

    def __getitem__(self, path: str) -> io.BytesIO:
        self.files.invalidate_cache()
        try:
            return io.BytesIO(self.files.cat_file(path))
        except FileNotFoundError:
            raise KeyError(path) from None

    def __iter__(self) -> Iterator[str]:
        self.files.invalidate_cache()
        staged = [f"/{name}" for name in self.files.find(PARTS)]
        return iter([*(path for path in (FILE, LEASE, COMPANION) if self.files.exists(path)), *staged])

    def __len__(self) -> int:
        return len(list(iter(self)))


@dataclass
class ServerWorld(World):
    """Attempts that share a real server, whose clock is the real one."""

    files: Any = field(default=None)

    def __post_init__(self) -> None:
        self.objects = ServerObjects(self.files)  # type: ignore[assignment]
        for path in list(self.objects):
            self.files.rm_file(path)

    def client_of(self, name: str, turn: Callable[[], bool]) -> Any:
        return PacedClient(self, name, turn)


@pytest.fixture
def fresh(files: Any) -> Callable[[], ServerWorld]:
    return lambda: ServerWorld(2, files=files)


def test_the_server_checks_conditions(fresh: Callable[[], ServerWorld]) -> None:
    with client(fresh()) as path:
        objects = StoreObjects(path, 5 * 1024 * 1024)
        file = objects.path.path
        objects.write(file, b"1", "")
        first = objects.read(file)
        assert first.modified is not None
        objects.write(file, b"2", first.condition)
        for condition in ("", first.condition):
            with pytest.raises(ConflictError):
                objects.write(file, b"3", condition)
        assert objects.read(file).content == b"2"


@pytest.mark.parametrize("between", [6, 12, 17, 18])
def test_a_switch_after_any_request_of_the_first(fresh: Callable[[], ServerWorld], between: int) -> None:
    for before in range(requests_of(fresh())):
        interleave(fresh(), before, between, retry=True)


@pytest.mark.parametrize("between", [8, 22, 40])
def test_a_companion_goes_with_its_file_whoever_comes_between(files: Any, between: int) -> None:
    def fresh() -> ServerWorld:
        return ServerWorld(1, files=files, has_companion=True)

    total = requests_of(fresh())
    for before in range(total // 3, total):
        world = fresh()
        interleave(world, before, between, retry=True)
        with actors(world, last=owner()) as (last,):
            last.finish()
        assert last.outcome is None
        assert world.is_pair()
