"""The transport, by a clock that a test can move on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http import connections
from airflow_provider_mediaops.http.transport import Transport
from tests.unit.http.sending import MovedClock
from tests.unit.loopback import make_certificate

if TYPE_CHECKING:
    from tests.unit.http.sending import Open


@pytest.fixture
def clock() -> MovedClock:
    """Return the clock by which the opened transport keeps its deadlines."""
    return MovedClock()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, clock: MovedClock) -> Iterator[Open]:
    """Open a transport, which is closed after the test."""
    monkeypatch.setattr(connections, "time", clock)
    with ExitStack() as stack:
        yield lambda settings: stack.enter_context(Transport(settings)).send


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("certificate"))
