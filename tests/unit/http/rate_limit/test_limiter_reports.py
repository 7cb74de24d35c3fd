"""What callers report to the limiter: replies, limits and quotas, and what becomes of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import (
    NotFoundError,
    QuotaExceededError,
    RateLimitedError,
    TemporaryError,
)
from airflow_provider_mediaops.http.errors import quota_error
from airflow_provider_mediaops.http.exchange import Request, Wait
from airflow_provider_mediaops.http.rate_limit.limiter import Permit
from airflow_provider_mediaops.http.rate_limit.schedule import QuotaExhausted
from tests.unit.conversations import START, FakeClock, pauses_of, replay
from tests.unit.http.rate_limit.limiters import closed, limiter_of, permit_after, take, tell
from tests.unit.http.rate_limit.rate_stores import sqlite_store

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.http.exchange import Step


class TestWhatTheServiceSays:
    def test_a_limit_slows_all_down_and_its_pause_is_kept(self) -> None:
        fake = FakeClock()
        limiter = limiter_of(fake)
        permit = take(limiter, fake)
        tell(limiter, RateLimitedError("limit", status=429, retry_after=20.0), permit)
        steps: list[Step] = []
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        assert pauses_of(steps) == pytest.approx([20.0 + 1.014 / 0.7, 1.014 / 0.7], rel=0.1)

    def test_a_pause_is_no_longer_than_a_call_may_wait(self) -> None:
        fake, steps = FakeClock(), list["Step"]()
        limiter = limiter_of(fake)
        tell(limiter, RateLimitedError("limit", retry_after=86_400.0), longest=60.0)
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        assert pauses_of(steps) == [60.0]

    def test_a_caller_that_waits_is_stopped_by_what_another_hears(self) -> None:
        fake = FakeClock()
        limiter = limiter_of(fake)
        take(limiter, fake)
        waiting = limiter.acquire()
        assert isinstance(next(waiting), Wait)
        tell(limiter, QuotaExceededError("spent", retry_after=3_600.0))
        fake.wait(1.014)
        with pytest.raises(StopIteration) as end:
            next(waiting)
        assert isinstance(end.value.value, QuotaExhausted)
        assert end.value.value.seconds == pytest.approx(3_600.986)

    def test_a_quota_error_ends_all_at_once_until_it_is_back(self) -> None:
        fake = FakeClock()
        limiter = limiter_of(fake)
        tell(limiter, QuotaExceededError("spent", retry_after=3_600.0))
        assert closed(limiter).seconds == pytest.approx(3_602.0)
        fake.wait(3_600.0)
        # What is left is not worth another try of the task.
        steps: list[Step] = []
        assert isinstance(replay(limiter.acquire(), [], steps=steps, clock=fake), Permit)
        assert pauses_of(steps) == pytest.approx([2.0])

    def test_no_quota_is_believed_to_be_spent_for_more_than_a_day(self) -> None:
        fake = FakeClock()
        limiter = limiter_of(fake)
        tell(limiter, QuotaExceededError("spent", retry_after=31_536_000.0))
        assert closed(limiter).seconds == pytest.approx(86_402.0)

    def test_it_is_opened_again(self) -> None:
        fake = FakeClock()
        limiter = limiter_of(fake)
        tell(limiter, QuotaExceededError("spent", retry_after=3_600.0))
        replay(limiter.restore_quota(), [])
        take(limiter, fake)

    def test_a_reply_that_took_long_keeps_others_at_a_distance(self) -> None:
        fake, steps = FakeClock(), list["Step"]()
        limiter = limiter_of(fake)
        permit = take(limiter, fake)
        fake.wait(0.3)
        replay(limiter.on_reply(permit), [])
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        assert pauses_of(steps) == pytest.approx([0.714, 0.3 + 1.011 - 1.014])

    def test_so_does_a_request_that_was_sent_late(self) -> None:
        """Replies that take long and differ do not hide it."""
        fake, steps = FakeClock(), list["Step"]()
        limiter = limiter_of(fake)
        for reply in (0.08, 0.1, 0.06, 0.08):
            permit = take(limiter, fake)
            sent_at = fake.seconds
            fake.wait(reply)
            replay(limiter.on_reply(permit, sent_at), [])
        permit = take(limiter, fake)
        fake.wait(0.02)
        sent_at = fake.seconds
        fake.wait(0.06)
        replay(limiter.on_reply(permit, sent_at), [])
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        assert fake.seconds - sent_at == pytest.approx(1.011)

    @pytest.mark.parametrize("by", [-1_000.0, 1_000.0])
    def test_a_time_of_sending_by_another_clock_is_not_used(self, by: float) -> None:
        fake = FakeClock()
        limiter = limiter_of(fake)
        permit = take(limiter, fake)
        fake.wait(0.3)
        replay(limiter.on_reply(permit, fake.seconds + by), [])
        sent_at = fake.seconds
        take(limiter, fake)
        # The whole reply counts, as if no time were known.
        assert fake.seconds - sent_at == pytest.approx(1.011)

    def test_so_does_an_answer_of_the_store_that_took_long(self, tmp_path: Path) -> None:
        """A busy machine, before the request was sent; the time that the service takes would hide it."""
        fake, steps = FakeClock(seconds=100.0), list["Step"]()
        limiter = limiter_of(fake, store=sqlite_store(tmp_path / "rates.db", fake))
        for late in (0.0, 0.0, 0.0, 0.0, 0.0, 0.05):
            permit = permit_after(limiter, fake, late)
            fake.wait(0.2)
            replay(limiter.on_reply(permit), [])
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        assert sum(pauses_of(steps)) == pytest.approx(0.05 + 1.011 - 0.25)
        limiter.store.close()

    @pytest.mark.parametrize("status", [404, None])
    def test_so_does_a_request_that_ended_late_in_an_error(self, status: int | None) -> None:
        fake, steps = FakeClock(), list["Step"]()
        limiter = limiter_of(fake)
        permit = take(limiter, fake)
        fake.wait(0.3)
        tell(limiter, NotFoundError("none", status=status), permit)
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        assert pauses_of(steps) == pytest.approx([0.714, 0.297])


class TestTheErrorOfASpentQuota:
    def test_it_says_until_when_and_what_was_not_sent(self) -> None:
        request = Request("GET", "/book/9780140449136", base="https://books.example")
        error = quota_error(request, "book database", QuotaExhausted(4 * 3_600 + 2.0), START)
        assert error.message == (
            "The quota of this key at the book database is used up until 2026-03-15 00:00 UTC, so GET "
            "/book/9780140449136 was not sent: run it again after that, or ask for a larger quota."
        )
        assert isinstance(error, TemporaryError)
        assert (error.service, error.method, error.path) == ("book database", "GET", "/book/9780140449136")
        assert error.retry_after == pytest.approx(4 * 3_600 + 2.0)

    @pytest.mark.parametrize("seconds", [-20, 0, 20])
    def test_clocks_that_differ_a_little_say_the_same(self, seconds: int) -> None:
        error = quota_error(Request("GET", "/"), "thing", QuotaExhausted(14_402.0), START + timedelta(seconds=seconds))
        assert "2026-03-15 00:00 UTC" in error.message
