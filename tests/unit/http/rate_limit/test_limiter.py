"""What a caller of the limiter sees: when it may send, and what happens where it may not."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    NotFoundError,
    QuotaExceededError,
    RateLimitedError,
    RateStoreError,
    TemporaryError,
)
from airflow_provider_mediaops.http.errors import quota_error
from airflow_provider_mediaops.http.exchange import Blocking, Request, Wait
from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter, limiter_for
from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore
from airflow_provider_mediaops.http.rate_limit.schedule import Granted, QuotaExhausted
from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore
from airflow_provider_mediaops.http.rate_limit.stores import MemoryStore, RateStore, store_at
from tests.unit.conversations import START, FakeClock, pauses_of, replay
from tests.unit.http.rate_limit.rate_stores import memory_store, sqlite_store

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.http.exchange import Conversation, Step
    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation


def limiter_of(fake: FakeClock, per_second: float = 1.0, **other: Any) -> RateLimiter:
    return RateLimiter(**{"store": memory_store(fake), "clock": fake.clock, **other}, name="key", per_second=per_second)


def take(limiter: RateLimiter, fake: FakeClock) -> Permit:
    answer = replay(limiter.acquire(), [], clock=fake)
    assert isinstance(answer, Permit)
    return answer


def permit_after(limiter: RateLimiter, fake: FakeClock, late: float) -> Permit:
    """Return a permit whose way from the store takes some seconds."""
    caller = limiter.acquire()
    try:
        step = next(caller)
        while True:
            if isinstance(step, Wait):
                fake.wait(step.seconds)
                step = next(caller)
            else:
                assert isinstance(step, Blocking)
                answer = step.action()
                fake.wait(late if isinstance(answer, Granted) else 0.0)
                step = caller.send(answer)
    except StopIteration as stop:
        permit: Permit = stop.value
        return permit


def closed(limiter: RateLimiter, fake: FakeClock | None = None) -> QuotaExhausted:
    answer = replay(limiter.acquire(), [], clock=fake)
    assert isinstance(answer, QuotaExhausted)
    return answer


def tell(limiter: RateLimiter, error: Any, permit: Permit | None = None, longest: float = 120.0) -> None:
    replay(limiter.on_error(error, permit, longest), [])


@pytest.mark.parametrize("rate", [0.5, 1.0, 2.5, 3.0, 50.0, 200.0])
def test_requests_are_evenly_spaced_a_little_below_the_rate(rate: float) -> None:
    fake = FakeClock(seconds=1_000.0)
    limiter = limiter_of(fake, rate)
    sent = []
    for _ in range(150):
        take(limiter, fake)
        sent.append(fake.seconds)
    assert 149 / (sent[-1] - sent[0]) == pytest.approx(rate / 1.014, rel=0.01)
    assert 149 / (sent[-1] - sent[0]) <= rate


def test_a_caller_waits_once_and_says_for_what() -> None:
    fake, steps = FakeClock(), list["Step"]()
    limiter = limiter_of(fake)
    take(limiter, fake)
    replay(limiter.acquire(), [], steps=steps, clock=fake)
    assert [step.reason for step in steps if isinstance(step, Wait)] == ["the key's rate"]
    assert pauses_of(steps) == pytest.approx([1.014])


def test_a_clock_that_stands_still_does_not_keep_a_caller_for_ever() -> None:
    fake, steps = FakeClock(), list["Step"]()
    limiter = limiter_of(fake)
    for _ in range(3):
        replay(limiter.acquire(), [], steps=steps)
    # They are taken to have slept.
    assert pauses_of(steps) == pytest.approx([1.014, 2.028])


def test_a_store_that_is_no_memory_is_asked_beside_the_service(tmp_path: Path) -> None:
    fake, steps = FakeClock(seconds=100.0), list["Step"]()
    store = sqlite_store(tmp_path / "rates.db", fake)
    replay(limiter_of(fake, store=store).acquire(), [], steps=steps, clock=fake)
    # A new file: nothing is sent in the first second.
    assert [type(step) for step in steps] == [Blocking, Wait, Blocking]
    assert pauses_of(steps) == pytest.approx([1.014])
    store.close()


def test_in_a_store_that_others_use_a_slow_rate_begins_as_slowly(tmp_path: Path) -> None:
    fake, steps = FakeClock(seconds=100.0), list["Step"]()
    store = sqlite_store(tmp_path / "rates.db", fake)
    replay(limiter_of(fake, 0.1, store=store).acquire(), [], steps=steps, clock=fake)
    assert pauses_of(steps) == pytest.approx([10.14])
    store.close()


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


def waiting(limiter: RateLimiter) -> Conversation[Permit | QuotaExhausted]:
    """Return a caller that waits for its slot."""
    caller = limiter.acquire()
    assert isinstance(next(caller), Wait)
    return caller


class TestCancelledCallers:
    @pytest.mark.parametrize("latest_first", [True, False])
    def test_of_many_the_next_caller_waits_about_a_second(self, *, latest_first: bool) -> None:
        fake, steps = FakeClock(), list["Step"]()
        limiter = limiter_of(fake)
        take(limiter, fake)
        callers = [waiting(limiter) for _ in range(500)]
        for caller in reversed(callers) if latest_first else callers:
            caller.close()
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        assert pauses_of(steps) == pytest.approx([1.014, 1.014])

    def test_also_in_a_file(self, tmp_path: Path) -> None:
        fake, steps = FakeClock(seconds=100.0), list["Step"]()
        limiter = limiter_of(fake, store=sqlite_store(tmp_path / "rates.db", fake))
        take(limiter, fake)
        callers = []
        for _ in range(20):
            caller = limiter.acquire()
            asked = next(caller)
            assert isinstance(asked, Blocking)
            assert isinstance(caller.send(asked.action()), Wait)
            callers.append(caller)
        for caller in callers:
            caller.close()
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        assert pauses_of(steps) == pytest.approx([1.014])
        limiter.store.close()

    @pytest.mark.parametrize("ends_first", [True, False])
    def test_a_reservation_that_was_under_way_is_given_back(self, tmp_path: Path, *, ends_first: bool) -> None:
        """A thread asks the store while the caller is cancelled on its event loop."""
        fake, steps = FakeClock(seconds=100.0), list["Step"]()
        limiter = limiter_of(fake, store=sqlite_store(tmp_path / "rates.db", fake))
        take(limiter, fake)
        caller = limiter.acquire()
        asked = next(caller)
        assert isinstance(asked, Blocking)
        if ends_first:
            asked.action()
        caller.close()
        if not ends_first:
            asked.action()
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        assert pauses_of(steps) == pytest.approx([1.014])
        limiter.store.close()

    def test_a_store_that_fails_does_not_hide_the_cancelling(self) -> None:
        fake = FakeClock()
        store = FailingStore(fake)
        limiter = limiter_of(fake, store=store)
        take(limiter, fake)
        caller = limiter.acquire()
        asked = next(caller)
        assert isinstance(asked, Blocking)
        caller.send(asked.action())
        store.failures = 1
        caller.close()
        assert store.failures == 0


class TestABookedOutKey:
    def test_it_is_an_error_that_says_what_to_do_instead_of_a_wait_of_hours(self) -> None:
        fake = FakeClock()
        limiter = limiter_of(fake)
        take(limiter, fake)
        callers = [waiting(limiter) for _ in range(3_550)]
        with pytest.raises(RateLimitedError, match=r"\(1 a second\) .* only in 60 minutes; .* fewer tasks") as caught:
            replay(limiter.acquire(), [])
        assert caught.value.retry_after == pytest.approx(1_800.0, abs=1.0)
        # Nothing was reserved.
        callers[-1].close()
        assert isinstance(next(limiter.acquire()), Wait)

    def test_a_slow_rate_may_have_its_first_callers_wait_for_longer(self) -> None:
        limiter = limiter_of(FakeClock(), 0.001)
        take(limiter, FakeClock())
        assert [isinstance(next(limiter.acquire()), Wait) for _ in range(10)] == [True] * 10


@dataclass
class FailingStore(MemoryStore):
    """A store that cannot be used for a number of times."""

    fake: FakeClock
    failures: int = 0
    seconds: float = 0.0
    asked: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        MemoryStore.__init__(self, self.fake.clock)

    def apply(self, name: str, operation: Operation[A], cooldown: float) -> A:
        self.asked += 1
        if self.failures:
            self.failures -= 1
            self.fake.wait(self.seconds)
            raise RateStoreError("The rate store thing:// cannot be used: gone.")
        return super().apply(name, operation, cooldown)

    def ask(self, name: str, operation: Operation[A], cooldown: float) -> Any:
        return RateStore.ask(self, name, operation, cooldown)


class TestAStoreThatFails:
    def test_at_the_start_it_is_an_error_at_once(self) -> None:
        fake = FakeClock()
        store = FailingStore(fake, failures=1)
        with pytest.raises(RateStoreError, match="thing:// cannot be used: gone"):
            replay(limiter_of(fake, store=store).acquire(), [], clock=fake)
        assert store.asked == 1

    def test_during_a_run_it_is_waited_for(self) -> None:
        fake, steps = FakeClock(), list["Step"]()
        store = FailingStore(fake)
        limiter = limiter_of(fake, store=store)
        take(limiter, fake)
        store.failures = 8
        replay(limiter.acquire(), [], steps=steps, clock=fake)
        waits = [step for step in steps if isinstance(step, Wait)]
        assert [wait.seconds for wait in waits] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])
        assert {wait.reason for wait in waits} == {"The rate store thing:// cannot be used: gone."}

    @pytest.mark.parametrize("seconds", [0.0, 5.0])
    @pytest.mark.parametrize("clock_runs", [True, False])
    def test_but_not_for_ever(self, seconds: float, *, clock_runs: bool) -> None:
        fake, steps = FakeClock(), list["Step"]()
        store = FailingStore(fake, seconds=seconds)
        limiter = limiter_of(fake, store=store)
        take(limiter, fake)
        store.failures = 1_000
        start = fake.seconds
        with pytest.raises(RateStoreError):
            replay(limiter.acquire(), [], steps=steps, clock=fake if clock_runs else None)
        assert sum(pauses_of(steps)) <= 60.0
        assert not clock_runs or 50.0 <= fake.seconds - start <= 65.0

    def test_what_the_service_said_is_not_hidden_by_it(self) -> None:
        fake = FakeClock()
        store = FailingStore(fake)
        limiter = limiter_of(fake, store=store)
        permit = take(limiter, fake)
        store.failures = 3
        tell(limiter, RateLimitedError("limit"), permit)
        tell(limiter, QuotaExceededError("spent", retry_after=60.0))
        fake.wait(1.0)
        replay(limiter.on_reply(permit), [])
        assert store.failures == 0


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


class TestStores:
    @pytest.mark.parametrize(
        ("address", "cls", "where"),
        [
            ("memory://", MemoryStore, "memory://"),
            ("sqlite:////folder/rates.db", SqliteStore, "sqlite:////folder/rates.db"),
            ("redis://:s3cr3t@host:7000/1", RedisStore, "redis://host:7000/1"),
            ("rediss://host", RedisStore, "rediss://host:6379"),
        ],
    )
    def test_an_address_has_one_store_in_a_process(self, address: str, cls: type[RateStore], where: str) -> None:
        store = store_at(address)
        assert type(store) is cls
        assert store.where == where
        assert store_at(address) is store

    @pytest.mark.parametrize(
        "address",
        [
            "",
            "memory",
            "memory://something",
            "redis",
            "sqlite://",
            "sqlite:///",
            "sqlite:///relative.db",
            "sqlite:////folder/",
            "mysql://:s3cr3t@host",
            "/folder/rates.db",
        ],
    )
    def test_what_is_none_is_refused(self, address: str) -> None:
        with pytest.raises(ValueError, match=r"sqlite:////folder/file\.db") as caught:
            store_at(address)
        assert "s3cr3t" not in str(caught.value)

    @pytest.mark.parametrize("scheme", ["redis+sentinel", "rediss+sentinel", "redis+cluster"])
    def test_sentinel_and_cluster_are_refused_in_words(self, scheme: str) -> None:
        with pytest.raises(ValueError, match=r"is not supported. Write redis://host .* primary") as caught:
            store_at(f"{scheme}://:s3cr3t@one:26379,two:26379/name/0")
        assert "s3cr3t" not in str(caught.value)

    def test_one_key_has_one_limiter_whose_name_does_not_tell_it(self) -> None:
        fake = FakeClock()
        store = memory_store(fake)
        first = limiter_for("service", "the-s3cr3t-key", 1.0, store)
        take(first, fake)
        steps: list[Step] = []
        replay(limiter_for("service", "the-s3cr3t-key", 5.0, store).acquire(), [], steps=steps, clock=fake)
        replay(limiter_for("service", "another-key", 1.0, store).acquire(), [], steps=steps)
        replay(limiter_for("another", "the-s3cr3t-key", 1.0, store).acquire(), [], steps=steps)
        assert pauses_of(steps) == pytest.approx([1.014])
        assert "s3cr3t" not in f"{first!r} {first.name}"

    def test_a_store_that_is_closed_is_opened_again(self) -> None:
        fake = FakeClock()
        limiter = limiter_of(fake)
        take(limiter, fake)
        limiter.store.close()
        limiter.store.close()
        take(limiter, fake)
        assert fake.seconds == 0.0
