"""What callers of the limiter see: when they may send, what they report, and a back end that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import pytest

from airflow_provider_mediaops.exceptions import (
    MediaOpsError,
    NotFoundError,
    QuotaExceededError,
    RateLimitedError,
    RateStoreError,
)
from airflow_provider_mediaops.http.exchange import Returned, Wait
from airflow_provider_mediaops.http.rate_limit.backends import MemoryBackend
from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter, limiter_for
from airflow_provider_mediaops.http.rate_limit.schedule import QuotaExhausted, from_text
from tests.unit.call_flows import FakeClock, pauses_of, replay
from tests.unit.http.rate_limit.keys import GAP, WINDOW, keep, limiter_of, memory_backend, next_step, take

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Step
    from airflow_provider_mediaops.http.rate_limit.backends import Change

T = TypeVar("T")


@pytest.fixture
def fake() -> FakeClock:
    return FakeClock(seconds=1_000.0)


def tell(limiter: RateLimiter, error: MediaOpsError, permit: Permit | None = None, longest: float = 120.0) -> None:
    replay(limiter.on_error(error, permit, longest), [])


def waited(limiter: RateLimiter, fake: FakeClock) -> float:
    """Return how long a permit has to be waited for."""
    steps: list[Step] = []
    replay(limiter.acquire(), [], steps=steps, clock=fake)
    return sum(pauses_of(steps))


def test_a_booked_out_key_is_an_error_that_says_what_to_do(fake: FakeClock) -> None:
    limiter = limiter_of(fake)
    keep(limiter.backend, "key", reserved=3_601.0)
    before = limiter.backend.read("key")[0]
    with pytest.raises(RateLimitedError, match=r"\(1 a second\) .* only in 60 minutes; .* fewer tasks") as caught:
        replay(limiter.acquire(), [])
    assert caught.value.retry_after == pytest.approx(1_800.5)
    assert caught.value.service == limiter.service
    assert limiter.backend.read("key")[0] == before


def test_one_key_has_one_limiter_whose_name_does_not_tell_it(fake: FakeClock) -> None:
    backend = memory_backend(fake)
    first = limiter_for("service", "the-s3cr3t-key", 1.0, backend)
    same = limiter_for("service", "the-s3cr3t-key", 5.0, backend)
    others = limiter_for("service", "another-key", 1.0, backend), limiter_for("another", "the-s3cr3t-key", 1.0, backend)
    assert first.name == same.name
    assert len({first.name, *(other.name for other in others)}) == 3
    assert "s3cr3t" not in f"{first!r} {first.name}"


def test_a_clock_that_is_set_back_a_little_stands_still_and_the_sends_stay_known(fake: FakeClock) -> None:
    limiter = limiter_of(fake, 50.0)
    take(limiter, fake)
    fake.wait(10.0)
    # Slots that passed unused may be taken at once.
    sent = [take(limiter, fake).at]
    fake.seconds -= 0.2
    sent.append(take(limiter, fake).at)
    text, now = limiter.backend.read("key")
    state = from_text(text or "", now)
    assert state
    assert state.sent == tuple(sent)


class TestReports:
    def test_a_caller_that_waits_is_stopped_by_a_quota_that_another_hears_of(self, fake: FakeClock) -> None:
        limiter = limiter_of(fake)
        take(limiter, fake)
        waiting = limiter.acquire()
        assert isinstance(next_step(waiting), Wait)
        tell(limiter, QuotaExceededError("spent", retry_after=3_600.0))
        fake.wait(GAP)
        end = next_step(waiting)
        assert isinstance(end, Returned)
        assert isinstance(end.value, QuotaExhausted)
        assert end.value.seconds == pytest.approx(3_602.0 - GAP)

    def test_a_quota_that_is_restored_soon_is_waited_for(self, fake: FakeClock) -> None:
        limiter, steps = limiter_of(fake), list["Step"]()
        tell(limiter, QuotaExceededError("spent", retry_after=8.0))
        assert isinstance(replay(limiter.acquire(), [], steps=steps, clock=fake), Permit)
        assert [step.reason for step in steps if isinstance(step, Wait)] == ["the reset of the key's quota"]
        assert pauses_of(steps) == pytest.approx([10.0])

    def test_another_error_changes_nothing(self, fake: FakeClock) -> None:
        limiter = limiter_of(fake)
        permit = take(limiter, fake)
        before = limiter.backend.read("key")[0]
        tell(limiter, NotFoundError("none", status=404), permit)
        assert limiter.backend.read("key")[0] == before

    @pytest.mark.parametrize("sent_at", [0.0, 1e6])
    def test_a_request_of_an_unknown_time_may_have_left_until_now(self, fake: FakeClock, sent_at: float) -> None:
        """The time of another clock is unknown, too."""
        limiter = limiter_of(fake)
        permit = take(limiter, fake)
        fake.wait(0.3)
        replay(limiter.on_sent(permit, sent_at), [])
        assert waited(limiter, fake) == pytest.approx(WINDOW)

    def test_the_time_that_the_back_end_needs_for_its_answer_counts(self, fake: FakeClock) -> None:
        class Slow(MemoryBackend):
            def update(self, name: str, change: Change[T]) -> T:
                answer = super().update(name, change)
                fake.wait(0.2)
                return answer

        limiter = limiter_of(fake, backend=Slow(lambda: fake.seconds))
        permit = take(limiter, fake)
        left = fake.seconds
        replay(limiter.on_sent(permit, left), [])
        text, now = limiter.backend.read("key")
        state = from_text(text or "", now)
        assert state
        assert permit.at == pytest.approx(left - 0.2)
        assert state.sent == pytest.approx((left,))


class FailingBackend(MemoryBackend):
    """A back end that cannot be used for a number of times, and takes so many seconds each time."""

    def __init__(self, fake: FakeClock, failures: int = 0, seconds: float = 0.0) -> None:
        super().__init__(lambda: fake.seconds)
        self.fake, self.failures, self.seconds, self.asked = fake, failures, seconds, 0

    def update(self, name: str, change: Change[T]) -> T:
        self.asked += 1
        if self.failures:
            self.failures -= 1
            self.fake.wait(self.seconds)
            raise RateStoreError("The rate store thing:// cannot be used: gone.")
        return super().update(name, change)


class TestABackEndThatFails:
    def test_at_the_start_it_is_an_error_at_once(self, fake: FakeClock) -> None:
        backend = FailingBackend(fake, failures=1)
        with pytest.raises(RateStoreError, match="thing:// cannot be used: gone"):
            replay(limiter_of(fake, backend=backend).acquire(), [], clock=fake)
        assert backend.asked == 1

    def test_during_a_run_it_is_waited_for(self, fake: FakeClock) -> None:
        backend, steps = FailingBackend(fake), list["Step"]()
        limiter = limiter_of(fake, backend=backend)
        take(limiter, fake)
        backend.failures = 8
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        waits = [step for step in steps if isinstance(step, Wait)]
        assert [wait.seconds for wait in waits] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
        assert {wait.reason for wait in waits} == {"The rate store thing:// cannot be used: gone."}

    @pytest.mark.parametrize("seconds", [0.0, 5.0])
    @pytest.mark.parametrize("clock_runs", [True, False])
    def test_back_end_that_fails_is_not_waited_for_longer_than_a_minute(
        self, fake: FakeClock, seconds: float, *, clock_runs: bool
    ) -> None:
        backend, steps = FailingBackend(fake, seconds=seconds), list["Step"]()
        limiter = limiter_of(fake, backend=backend)
        take(limiter, fake)
        backend.failures = 1_000
        with pytest.raises(RateStoreError):
            replay(limiter.acquire(), [], steps=steps, clock=fake if clock_runs else None)
        assert sum(pauses_of(steps)) <= 60.0
        assert not clock_runs or 50.0 <= fake.seconds - 1_000.0 <= 65.0

    def test_reports_are_not_hidden_by_it(self, fake: FakeClock) -> None:
        backend = FailingBackend(fake)
        limiter = limiter_of(fake, backend=backend)
        permit = take(limiter, fake)
        backend.failures = 3
        tell(limiter, RateLimitedError("limit"), permit)
        tell(limiter, QuotaExceededError("spent", retry_after=60.0))
        fake.wait(1.0)
        replay(limiter.on_sent(permit, None), [])
        assert backend.failures == 0
