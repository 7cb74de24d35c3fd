"""A bulletin's delivery on a connection with a rate, whose back end is asked before the post and told of it after."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

from airflow_provider_mediaops.exceptions import RateLimitedError
from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter
from airflow_provider_mediaops.http.rate_limit.sqlite_backend import SqliteBackend
from airflow_provider_mediaops.http.runner import run
from tests.unit.call_flows import FakeClock
from tests.unit.task_state import KeptState
from tests.unit.video.delivering import Platform, begun, posting, reply
from tests.unit.video_platform import error

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.http.exchange import Request, Response, Wait
    from airflow_provider_mediaops.http.rate_limit.backend import Change
    from airflow_provider_mediaops.video.models import Activity


T = TypeVar("T")


class SlowPlatform(Platform):
    """Takes its time to reply, which the key's limiter tells its back end."""

    def __init__(self, path: Path, *replies: Response | BaseException) -> None:
        super().__init__(KeptState(), *replies)
        self.clock = FakeClock()
        self.limiter = RateLimiter(NotedBackend(path, self), "key", 1_000.0, clock=self.clock.clock)

    def sleep(self, wait: Wait) -> None:
        self.clock.wait(wait.seconds)
        super().sleep(wait)

    def send(self, request: Request) -> Response:
        self.clock.wait(1.0)
        return super().send(request)

    def post(self) -> Activity:
        return run(posting(begun(self.store), limiter=self.limiter), self.send, self.sleep)


class NotedBackend(SqliteBackend):
    """A back end that notes what the platform's record says when it is asked."""

    def __init__(self, path: Path, platform: SlowPlatform) -> None:
        super().__init__(path, clock=lambda: platform.clock.seconds)
        self._platform = platform

    def update(self, name: str, change: Change[T]) -> T:
        answer = super().update(name, change)
        is_report = isinstance(answer, tuple) and answer[0] is None
        self._platform.seen.append(("report" if is_report else "answer", self._platform.state))
        return answer


class TestReportsToTheBackEnd:
    """It says nothing of what became of the post."""

    @pytest.fixture
    def rates(self, tmp_path: Path) -> Path:
        return tmp_path / "rates.db"

    def test_report_after_a_post_is_not_taken_for_a_refusal(self, rates: Path) -> None:
        platform = SlowPlatform(rates, reply())

        assert platform.post().id == "act-1"

        assert platform.seen[-2:] == [("/v3/activities", "intended"), ("report", "intended")]
        assert [state for _, state in platform.seen[:-2]] == [None] * (len(platform.seen) - 2)
        assert platform.state == "posted"

    def test_report_of_a_limit_comes_after_the_intent_is_taken_back(self, rates: Path) -> None:
        busy = reply(error(403, "rateLimitExceeded"), 403)
        platform = SlowPlatform(rates, busy, busy)

        with pytest.raises(RateLimitedError):
            platform.post()

        assert platform.seen.count(("report", None)) == 4
        assert {state for what, state in platform.seen if what in ("report", "pause", "answer")} == {None}
        assert platform.store.values == {}
