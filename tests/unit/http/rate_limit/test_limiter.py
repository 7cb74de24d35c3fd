"""What a caller of the limiter sees: when it may send, and what happens where it may not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import (
    QuotaExceededError,
    RateLimitedError,
    RateStoreError,
)
from airflow_provider_mediaops.http.exchange import Blocking, Wait
from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter, limiter_for
from airflow_provider_mediaops.http.rate_limit.memory_store import MemoryStore
from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore
from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore
from airflow_provider_mediaops.http.rate_limit.store_by_address import store_at
from airflow_provider_mediaops.http.rate_limit.store_interface import RateStore
from tests.unit.conversations import FakeClock, pauses_of, replay
from tests.unit.http.rate_limit.limiters import limiter_of, take, tell
from tests.unit.http.rate_limit.rate_stores import memory_store, sqlite_store, wait_for_returned_slots

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.http.exchange import Conversation, Step
    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation
    from airflow_provider_mediaops.http.rate_limit.schedule import QuotaExhausted


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
        wait_for_returned_slots()
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
        wait_for_returned_slots()
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
