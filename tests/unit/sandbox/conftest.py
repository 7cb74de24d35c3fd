"""A sandbox without a network, whose clock stands still until a test moves it."""

from __future__ import annotations

import httpx
import pytest

from airflow_provider_mediaops.sandbox import cluster, video
from airflow_provider_mediaops.sandbox.app import create_app
from airflow_provider_mediaops.sandbox.clock import Clock
from airflow_provider_mediaops.sandbox.state import SandboxState, Settings

#: The login of the search cluster.
OPERATOR = (cluster.LOGIN, cluster.PASSWORD)
#: The headers of a request to the video platform.
BEARER = {"Authorization": f"Bearer {video.BEARER_TOKEN}"}
#: The form that gets an access token.
FORM = {
    "grant_type": "refresh_token",
    "client_id": video.CLIENT_ID,
    "client_secret": video.CLIENT_SECRET,
    "refresh_token": video.REFRESH_TOKEN,
}
# 2025-03-01 12:00:00 UTC
NOON = 1_740_830_400.0


class FakeClock(Clock):
    """A clock that moves when it is told to, or when somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = NOON
        self.naps: list[float] = []

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.seconds += seconds


class Sandbox:
    """A sandbox and what a test needs to talk to it."""

    def __init__(self, **settings: object) -> None:
        self.clock = FakeClock()
        self.state = SandboxState(Settings.model_validate(settings), clock=self.clock)
        self._transport = httpx.ASGITransport(create_app(self.state, host="sandbox.test"))
        self._client = httpx.AsyncClient(transport=self._transport, base_url="http://sandbox.test")
        self.request = self._client.request
        self.get = self._client.get
        self.head = self._client.head
        self.post = self._client.post
        self.delete = self._client.delete


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()
