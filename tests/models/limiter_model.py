"""The model of the rate limiter of a key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from airflow_provider_mediaops.exceptions import QuotaExceededError, RateLimitedError
from airflow_provider_mediaops.http.exchange import Blocking, Returned, Wait, advance
from airflow_provider_mediaops.http.rate_limit.backend import MemoryBackend
from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter
from airflow_provider_mediaops.http.rate_limit.schedule import QUOTA_GRACE_SECONDS, Granted, QuotaExhausted
from tests.unit.call_flows import FakeClock

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow

_MOST_CALLERS = 8
# The limiter counts requests in a longer window than the service.
_WINDOW_SECONDS = 1.02
# Waits shorter than this are not slept.
_NEGLIGIBLE_SECONDS = 0.0006
_WHICH = st.integers(0, _MOST_CALLERS - 1)


@dataclass(eq=False)
class Caller:
    """
    A caller that acquires a permit.

    :param answer: the answer of the store that has not reached it yet.
    :param wakes_at: when it wakes up, if it sleeps.
    """

    asking: CallFlow[Any]
    step: Any
    answer: list[Any] = field(default_factory=list)
    wakes_at: float = 0.0


class LimiterMachine(RuleBasedStateMachine):
    """
    Callers of one key acquire permits, wake up late, are cancelled and die.

    - No window holds more permits than the key's rate allows, however late callers wake up.
    - During a pause that the service asked for, and while the quota is used up, there is no permit.
    - In the end every caller that is left gets a permit, or learns that the quota is used up.
    """

    @initialize(rate=st.sampled_from([0.5, 1.0, 3.0, 5.0]))
    def begin(self, rate: float) -> None:
        self.rate, self.limit = rate, max(1, int(rate))
        self.window = _WINDOW_SECONDS * self.limit / rate
        self.fake = FakeClock(seconds=10_000.0, share=0.5)
        self.limiter = RateLimiter(MemoryBackend(lambda: self.fake.seconds), "key", rate, clock=self.fake.clock)
        self.callers: list[Caller] = []
        self.permits: list[Permit] = []
        self.granted_at: list[float] = []
        self.paused_until = self.blocked_until = 0.0

    @precondition(lambda self: len(self.callers) < _MOST_CALLERS)
    @rule(prompt=st.booleans())
    def ask(self, prompt: bool) -> None:  # noqa: FBT001
        asking = self.limiter.acquire()
        caller = Caller(asking, advance(asking))
        self.callers.append(caller)
        if prompt:
            self._until_it_sleeps(caller)

    @precondition(lambda self: len(self.callers) < _MOST_CALLERS - 3)
    @rule(count=st.integers(2, 4))
    def ask_together(self, count: int) -> None:
        for _ in range(count):
            self.ask(prompt=True)

    @precondition(lambda self: self.callers)
    @rule(which=_WHICH)
    def go_on(self, which: int) -> None:
        caller = self.callers[which % len(self.callers)]
        if not isinstance(caller.step, Wait) or caller.wakes_at <= self.fake.seconds:
            self._go_on(caller)

    @precondition(lambda self: self.callers)
    @rule(steps=st.integers(1, 20), late=st.sampled_from([0.0, 0.0, 0.01, 0.3, 0.7]))
    def let_them_go_on(self, steps: int, late: float) -> None:
        """Let all go on as they wake up, the first of them a little late."""
        for number in range(steps):
            if not self.callers:
                return
            self._next_one(0.0 if number else late)

    @rule(seconds=st.sampled_from([0.001, 0.1, 0.4, 0.6, 1.0, 5.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.fake.wait(seconds)

    @precondition(lambda self: self.callers)
    @rule(which=_WHICH)
    def cancel(self, which: int) -> None:
        """It leaves its slot unused, as one that dies does."""
        self.callers.pop(which % len(self.callers)).asking.close()

    @precondition(lambda self: self.permits)
    @rule(seconds=st.sampled_from([0.0, 0.05, 0.4]))
    def reply(self, seconds: float) -> None:
        self.fake.wait(seconds)
        self._carry_out(self.limiter.on_sent(self.permits.pop(), None))

    @rule(pause=st.sampled_from([None, 0.0, 3.0, 40.0]))
    def refuse(self, pause: float | None) -> None:
        permit = self.permits.pop() if self.permits else None
        error = RateLimitedError("too many", service="s", retry_after=pause)
        self._carry_out(self.limiter.on_error(error, permit, 30.0))
        self.paused_until = max(self.paused_until, self.fake.seconds + min(pause or 0.0, 30.0))

    @rule(seconds=st.sampled_from([5.0, 60.0]))
    def use_up_the_quota(self, seconds: float) -> None:
        error = QuotaExceededError("used up", service="s", retry_after=seconds)
        self._carry_out(self.limiter.on_error(error, None, 30.0))
        self.blocked_until = max(self.blocked_until, self.fake.seconds + seconds)

    @rule()
    def restore_the_quota(self) -> None:
        self._carry_out(self.limiter.restore_quota())
        self.blocked_until = 0.0

    def _until_it_sleeps(self, caller: Caller) -> None:
        while caller in self.callers and not isinstance(caller.step, Wait):
            self._go_on(caller)

    def _go_on(self, caller: Caller) -> None:
        if isinstance(caller.step, Blocking) and not caller.answer:
            caller.answer.append(self._answer(caller.step))
            return
        step = advance(caller.asking, caller.answer.pop() if caller.answer else None)
        if isinstance(step, Returned):
            self.callers.remove(caller)
            if isinstance(step.value, Permit):
                self.permits.append(step.value)
            return
        caller.step = step
        caller.wakes_at = self.fake.seconds + step.seconds if isinstance(step, Wait) else 0.0

    def _answer(self, step: Blocking[Any]) -> Any:
        """Let the store answer, and check that it may say so now."""
        whole, now = step.action(), self.fake.seconds
        answer, _ = whole
        if isinstance(answer, QuotaExhausted):
            assert now < self.blocked_until + QUOTA_GRACE_SECONDS, "the quota is not used up"
        if isinstance(answer, Granted):
            assert now >= max(self.paused_until, self.blocked_until) - _NEGLIGIBLE_SECONDS, "a permit in a pause"
            self.granted_at.append(now)
            before = self.granted_at[-self.limit - 1] if len(self.granted_at) > self.limit else 0.0
            assert now - before > self.window - _NEGLIGIBLE_SECONDS, f"{self.limit + 1} permits in {now - before} s"
        return whole

    def _next_one(self, late: float) -> None:
        caller = min(self.callers, key=lambda each: each.wakes_at)
        self.fake.wait(max(0.0, caller.wakes_at + late - self.fake.seconds))
        self._go_on(caller)
        self._until_it_sleeps(caller)

    def _carry_out(self, flow: CallFlow[None]) -> None:
        step = advance(flow)
        while not isinstance(step, Returned):
            assert isinstance(step, Blocking)
            step = advance(flow, step.action())

    def teardown(self) -> None:
        try:
            for _ in range(100 * _MOST_CALLERS):
                if not self.callers:
                    return
                self._next_one(0.0)
            assert not self.callers, "a caller waits for ever"
        finally:
            for caller in self.callers:
                caller.asking.close()
