"""An object store in memory, as Airflow would attach one of a cloud."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.storage.fake_store import FakeStore, attached
from tests.unit.storage.places import Place, local_place, store_place


class Store(FakeStore):
    """Objects in memory, that can be told to refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.refusal: Exception | None = None
        self.refuses: Callable[[str], bool] = lambda _: True
        self.puts: list[str] = []

    def _replace(self, path: str, value: bytes, **options: Any) -> None:
        if self.refusal and self.refuses(path):
            raise self.refusal
        super()._replace(path, value, **options)
        self.puts.append(path)


@pytest.fixture
def store() -> Iterator[Store]:
    """Attach a store that checks conditions as `memory://shelf@…`."""
    with attached(Store(), "shelf") as store:
        yield store


@pytest.fixture(params=["local", "store", "store without conditions"])
def place(request: pytest.FixtureRequest) -> Place:
    """Return a place of each kind."""
    if request.param == "local":
        return local_place(request.getfixturevalue("tmp_path"))
    store: Store = request.getfixturevalue("store")
    store.check_conditions(request.param == "store")
    return store_place(store)


@pytest.fixture(params=["conditional", "unconditional"])
def bucket(request: pytest.FixtureRequest, store: Store) -> Place:
    """Return a place in a store that checks conditions, and in one that knows none."""
    store.check_conditions(request.param == "conditional")
    return store_place(store)
