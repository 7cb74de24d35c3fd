"""The search cluster that triggers wait on, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.scripted_cluster import ScriptedCluster, install

if TYPE_CHECKING:
    from tests.unit.conftest import Supervisor


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor) -> ScriptedCluster:
    """Have a cluster at the other end of the connection."""
    scripted = ScriptedCluster()
    install(scripted, monkeypatch, supervisor)
    return scripted
