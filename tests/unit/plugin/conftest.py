"""What the tests of the pages share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.plugin.airflow_world import World


@pytest.fixture
def world(airflow_db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Return an Airflow with nothing in it."""
    from tests.unit.plugin.airflow_world import World, empty_database

    assert airflow_db.exists()
    world = World(tmp_path)
    world.install(monkeypatch)
    with empty_database():
        yield world
