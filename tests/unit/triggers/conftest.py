"""The services that triggers wait on, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http import transport
from tests.unit.scripted_cluster import ScriptedCluster, install
from tests.unit.triggers.exports import Platform
from tests.unit.video_platform import connection
from tests.unit.virtual_time import send_on_the_loop

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request, Response
    from tests.unit.conftest import Supervisor


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor) -> ScriptedCluster:
    """Have a cluster at the other end of the connection."""
    scripted = ScriptedCluster()
    install(scripted, monkeypatch, supervisor)
    return scripted


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor) -> Platform:
    """Have a video platform at the other end of the connection."""
    platform = Platform()

    class Transport:
        def __init__(self, *settings: object) -> None:
            platform.open += 1

        async def send(self, request: Request) -> Response:
            return await platform.answer(request)

        def close(self) -> None:
            platform.open -= 1

    monkeypatch.setattr(transport, "Transport", Transport)
    send_on_the_loop(monkeypatch)
    supervisor.connect("video_1", connection("https://video.example"))
    return platform
