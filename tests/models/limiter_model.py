"""The model of the rate limiter of a key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from airflow_provider_mediaops.exceptions import QuotaExceededError, RateLimitedError
from airflow_provider_mediaops.http.exchange import Blocking, Returned, Wait, advance
from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter
from airflow_provider_mediaops.http.rate_limit.memory_store import MemoryStore
from airflow_provider_mediaops.http.rate_limit.schedule import QUOTA_GRACE_SECONDS, Granted, QuotaExhausted
from airflow_provider_mediaops.http.rate_limit.store_interface import RateStore
from tests.unit.conversations import FakeClock

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Conversation
    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation

_MOST_CALLERS = 8
# The limiter spaces requests wider than the key's rate, and counts them in a longer window than the service.
_SPACING, _WINDOW_SECONDS = 1.014, 1.011
# Waits shorter than this are not slept.
_NEGLIGIBLE_SECONDS = 0.0006
_WHICH = st.integers(0, _MOST_CALLERS - 1)


class RemoteStore(MemoryStore):
    """A store whose answers take some time: a caller may be cancelled before it has its answer."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock.clock)
        self.fake = clock

    def ask(self, name: str, operation: Operation[A], cooldown: float) -> Conversation[A]:
        return RateStore.ask(self, name, operation, cooldown)


@dataclass(eq=False)
class Caller:
    """
    A caller that acquires a permit.

    :param asking: what it does.
    :param step: the step at which it is.
    :param answer: the answer of the store that has not reached it yet.
    :param wakes_at: when it wakes up, if it sleeps.
    """

    asking: Conversation[Any]
    step: Any
    answer: list[Any] = field(default_factory=list)
    wakes_at: float = 0.0


class LimiterMachine(RuleBasedStateMachine):
    """
    Callers of one key acquire permits, wake up late, are cancelled and die.

    - No window holds more permits than the key's rate allows, however late callers wake up.
    - During a pause that the service asked for, and while the quota is used up, there is no permit.
    - What a cancelled caller had reserved is free again, also if it is cancelled while the store answers.
    - In the end every caller that is left gets a permit, or learns that the quota is used up.
    """

    @initialize(rate=st.sampled_from([0.5, 1.0, 3.0, 5.0]))
    def begin(self, rate: float) -> None:
        self.rate, self.limit = rate, max(1, int(rate))
        self.window = _WINDOW_SECONDS * self.limit / rate
        self.fake = FakeClock(seconds=10_000.0, share=0.5)
        self.store = RemoteStore(self.fake)
        self.limiter = RateLimiter(self.store, "key", rate, clock=self.fake.clock)
        self.callers: list[Caller] = []
        #: Those that have died: a caller that is collected as garbage is closed, and gives its slot back.
        self.dead: list[Caller] = []
        self.permits: list[Permit] = []
        self.granted_at: list[float] = []
        self.paused_until = self.blocked_until = 0.0
        self.is_slowed = False

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
        caller = self.callers.pop(which % len(self.callers))
        late = caller.step if isinstance(caller.step, Blocking) and not caller.answer else None
        caller.asking.close()
        if late:
            # The thread that asks the store comes to it after its caller was cancelled.
            self._answer(late)

    @precondition(lambda self: self.callers)
    @rule(which=_WHICH)
    def kill(self, which: int) -> None:
        self.dead.append(self.callers.pop(which % len(self.callers)))

    @precondition(lambda self: self.permits)
    @rule(seconds=st.sampled_from([0.0, 0.05, 0.4]))
    def reply(self, seconds: float) -> None:
        self.fake.wait(seconds)
        self._carry_out(self.limiter.on_reply(self.permits.pop()))

    @rule(pause=st.sampled_from([None, 0.0, 3.0, 40.0]))
    def refuse(self, pause: float | None) -> None:
        permit = self.permits.pop() if self.permits else None
        error = RateLimitedError("too many", service="s", retry_after=pause)
        self._carry_out(self.limiter.on_error(error, permit, 30.0))
        self.is_slowed = True
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

    # What the dead have reserved passes unused.
    @precondition(lambda self: not (self.is_slowed or self.dead))
    @rule()
    def cancel_all_and_ask(self) -> None:
        while self.callers:
            self.cancel(0)
        left = max(self.paused_until, self.blocked_until + QUOTA_GRACE_SECONDS) - self.fake.seconds
        if left > 0.0:
            return
        self.ask(prompt=True)
        if self.callers:
            wait = self.callers[0].wakes_at - self.fake.seconds
            assert wait <= _SPACING / self.rate + self.window, f"{wait} s, although nobody waits"

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
        answer, now = step.action(), self.fake.seconds
        if isinstance(answer, QuotaExhausted):
            assert now < self.blocked_until + QUOTA_GRACE_SECONDS, "the quota is not used up"
        if isinstance(answer, Granted):
            assert now >= max(self.paused_until, self.blocked_until) - _NEGLIGIBLE_SECONDS, "a permit in a pause"
            self.granted_at.append(now)
            before = self.granted_at[-self.limit - 1] if len(self.granted_at) > self.limit else 0.0
            assert now - before > self.window - _NEGLIGIBLE_SECONDS, f"{self.limit + 1} permits in {now - before} s"
        return answer

    def _next_one(self, late: float) -> None:
        caller = min(self.callers, key=lambda each: each.wakes_at)
        self.fake.wait(max(0.0, caller.wakes_at + late - self.fake.seconds))
        self._go_on(caller)
        self._until_it_sleeps(caller)

    def _carry_out(self, conversation: Conversation[None]) -> None:
        step = advance(conversation)
        while not isinstance(step, Returned):
            assert isinstance(step, Blocking)
            step = advance(conversation, step.action())

    def teardown(self) -> None:
        try:
            for _ in range(40 * _MOST_CALLERS):
                if not self.callers:
                    return
                self._next_one(0.0)
            assert not self.callers, "a caller waits for ever"
        finally:
            for caller in self.callers:
                caller.asking.close()
            self.dead.clear()
