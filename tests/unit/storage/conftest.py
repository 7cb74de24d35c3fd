"""An object store in memory, as Airflow would attach one of a cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.io import attach
from airflow.sdk.io.store import _STORE_CACHE
from fsspec.implementations.memory import MemoryFileSystem

from tests.unit.storage.places import Place, local_place, store_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Store(MemoryFileSystem):  # type: ignore[misc]  # fsspec publishes no types
    """Objects in memory, that can be told to refuse."""

    cachable = False
    store: dict[str, Any]
    pseudo_dirs: list[str]

    def __init__(self) -> None:
        super().__init__()
        self.store = {}
        self.pseudo_dirs = [""]
        self.refusal: Exception | None = None
        self.refuses: Callable[[str], bool] = lambda _: True
        self.puts: list[str] = []

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        self._admit(path)
        super().pipe_file(path, value, **options)

    def put_file(self, lpath: str, rpath: str, **options: Any) -> None:
        self._admit(rpath)
        super().put_file(lpath, rpath, **options)

    def _admit(self, path: str) -> None:
        if self.refusal and self.refuses(path):
            raise self.refusal
        self.puts.append(path)

    @property
    def names(self) -> list[str]:
        """Give the names of all objects."""
        return sorted(self.store)


@pytest.fixture
def store() -> Iterator[Store]:
    """Attach the store as `memory://shelf@…`."""
    store = Store()
    attach("memory", "shelf", fs=store)
    yield store
    del _STORE_CACHE["memory-shelf"]


@pytest.fixture(params=["local", "store"])
def place(request: pytest.FixtureRequest) -> Place:
    """Give a place of each kind."""
    if request.param == "local":
        return local_place(request.getfixturevalue("tmp_path"))
    return store_place(request.getfixturevalue("store"))
