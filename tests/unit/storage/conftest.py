"""An object store in memory, as Airflow would attach one of a cloud."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.storage.fake_store import FakeStore, attached
from tests.unit.storage.places import Place, local_place, store_place


@pytest.fixture
def store() -> Iterator[FakeStore]:
    """Attach a store that checks conditions as `memory://shelf@…`."""
    with attached(FakeStore(), "shelf") as store:
        yield store


@pytest.fixture(params=["local", "store", "store without conditions"])
def place(request: pytest.FixtureRequest) -> Place:
    """Return a place of each kind."""
    if request.param == "local":
        return local_place(request.getfixturevalue("tmp_path"))
    store: FakeStore = request.getfixturevalue("store")
    store.check_conditions(request.param == "store")
    return store_place(store)


@pytest.fixture(params=["conditional", "unconditional"])
def bucket(request: pytest.FixtureRequest, store: FakeStore) -> Place:
    """Return a place in a store that checks conditions, and in one that knows none."""
    store.check_conditions(request.param == "conditional")
    return store_place(store)
