"""A bulletin's delivery on a connection with a rate, whose store is asked before the post and told of it after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import RateLimitedError, UncertainDeliveryError
from airflow_provider_mediaops.http.drivers import run
from airflow_provider_mediaops.http.exchange import Failure, Request, Response, TransportError
from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter
from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore
from tests.unit.conversations import FakeClock
from tests.unit.task_state import KeptState
from tests.unit.video.delivering import Platform, begun, posting, reply
from tests.unit.video_platform import error

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation
    from airflow_provider_mediaops.video.models import Activity


class SlowPlatform(Platform):
    """Takes its time to reply, which the key's limiter tells its store."""

    def __init__(self, path: Path, *replies: Response | BaseException) -> None:
        super().__init__(KeptState(), *replies)
        self._fake = FakeClock()
        self._rates = NotedStore(path, self)
        self.limiter = RateLimiter(self._rates, "key", 1_000.0, clock=self._fake.clock)

    def send(self, request: Request) -> Response:
        self._fake.wait(1.0)
        return super().send(request)

    def post(self) -> Activity:
        try:
            return run(posting(begun(self.store), limiter=self.limiter), self.send, self.sleep)
        finally:
            self._rates.close()


class NotedStore(SqliteStore):
    """A store of rates that notes what the platform's record says when it is asked."""

    def __init__(self, path: Path, platform: Platform) -> None:
        super().__init__(path, clock=lambda: 1_000.0)
        self._platform = platform

    def apply(self, name: str, operation: Operation[A], cooldown: float) -> A:
        self._platform.seen.append((operation.name, self._platform.state))
        return super().apply(name, operation, cooldown)


class TestWhatTheStoreIsTold:
    """It says nothing of what became of the post."""

    @pytest.fixture
    def rates(self, tmp_path: Path) -> Path:
        return tmp_path / "rates.db"

    def test_it_is_not_taken_for_a_refusal(self, rates: Path) -> None:
        platform = SlowPlatform(rates, reply())

        assert platform.post().id == "act-1"

        assert platform.seen[-2:] == [("/v3/activities", "intended"), ("delayed", "intended")]
        assert [state for _, state in platform.seen[:-2]] == [None] * (len(platform.seen) - 2)
        assert platform.state == "posted"

    def test_a_lost_reply_leaves_the_intent(self, rates: Path) -> None:
        platform = SlowPlatform(rates, TransportError(Failure.TIMEOUT, "late"))

        with pytest.raises(UncertainDeliveryError):
            platform.post()

        assert platform.seen[-1] == ("delayed", "intended")
        assert platform.state == "intended"

    def test_a_limit_takes_it_back(self, rates: Path) -> None:
        busy = reply(error(403, "rateLimitExceeded"), 403)
        platform = SlowPlatform(rates, busy, busy)

        with pytest.raises(RateLimitedError):
            platform.post()

        assert {state for what, state in platform.seen if what in ("slow_down", "pause", "reserve")} == {None}
        assert platform.store.values == {}
