"""The rules that all models of tasks share: attempts advance, fail, die, and time passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.video.at_most_once import UNCERTAIN_AFTER_SECONDS
from tests.models.attempts import MadeUpClock

if TYPE_CHECKING:
    from tests.models.attempts import Attempt

#: So many attempts at a time.
MOST_AT_A_TIME = 3
#: One of the attempts that run.
WHICH = st.integers(0, MOST_AT_A_TIME - 1)


class TaskMachine(RuleBasedStateMachine):
    """Attempts at tasks, of which several may run at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = MadeUpClock()
        self.running: list[Attempt] = []
        #: The attempts that something else than their own death may end.
        self.disturbed: set[Attempt] = set()
        #: Whether an attempt that has ended may still hold what it wrote to.
        self.is_held = False
        #: The attempts that began before their task was cleared: they may return what was published before.
        self.outdated: set[Attempt] = set()
        #: What an attempt was seen to do wrong while it ran.
        self.wrong: list[str] = []

    @property
    def has_room(self) -> bool:
        """Whether another attempt may start."""
        return len(self.running) < MOST_AT_A_TIME

    def launch(self, attempt: Attempt) -> Attempt:
        """Count an attempt among those that run; it has not taken a step yet."""
        self.running.append(attempt)
        self._meet(attempt)
        if self.is_held:
            self.disturbed.add(attempt)
        return attempt

    def _meet(self, attempt: Attempt) -> None:
        """Note that an attempt goes on beside the others, of which one may hold what it needs."""
        others = {each for each in self.running if each is not attempt and not self._holds_nothing(each)}
        if others:
            self.disturbed |= {attempt, *others}

    def _holds_nothing(self, attempt: Attempt) -> bool:
        """Return whether an attempt waits with empty hands; a fault may have kept one from releasing its lease."""
        return attempt.holds_nothing and attempt not in self.disturbed

    @precondition(lambda self: self.running)
    @rule(which=WHICH, steps=st.integers(1, 30))
    def advance(self, which: int, steps: int) -> None:
        self.let(self._one(which), steps)

    @precondition(lambda self: self.running)
    @rule(which=WHICH)
    def finish(self, which: int) -> None:
        self.finish_now(self._one(which))

    @precondition(lambda self: self.running)
    @rule(which=WHICH, steps=st.integers(0, 30), tears=st.booleans())
    def kill(self, which: int, steps: int, tears: bool) -> None:  # noqa: FBT001
        attempt = self._one(which)
        self._step(attempt, steps)
        attempt.tears = tears
        self.kill_now(attempt)

    @precondition(lambda self: self.running)
    @rule(which=WHICH, steps=st.integers(0, 30), fault=st.sampled_from(["refused", "reply lost"]))
    def fail_a_step(self, which: int, steps: int, fault: str) -> None:
        attempt = self._one(which)
        self._step(attempt, steps)
        attempt.fault = fault
        self.disturbed.add(attempt)
        self.on_fault(attempt)
        self.let(attempt, 1)

    @rule(seconds=st.sampled_from([40.0, UNCERTAIN_AFTER_SECONDS]))
    def let_time_pass(self, seconds: float) -> None:
        self.clock.now += seconds
        if seconds >= UNCERTAIN_AFTER_SECONDS:
            self.is_held = False

    @invariant()
    def nothing_was_seen_to_go_wrong(self) -> None:
        assert not self.wrong, self.wrong[0]

    def outdate(self, task: str) -> None:
        """Note that a task is cleared that had succeeded."""
        self.outdated |= {attempt for attempt in self.running if attempt.task == task}

    def let(self, attempt: Attempt, steps: int) -> None:
        """Let an attempt take some steps."""
        self._step(attempt, steps)
        if attempt.ended:
            self._take_away(attempt)

    def _step(self, attempt: Attempt, steps: int) -> None:
        if steps:
            self._meet(attempt)
        attempt.step(steps)

    def _one(self, which: int) -> Attempt:
        return self.running[which % len(self.running)]

    def _take_away(self, attempt: Attempt) -> None:
        self.running.remove(attempt)
        self.nothing_was_seen_to_go_wrong()
        if isinstance(attempt.outcome, Exception) and not attempt.is_dead:
            assert isinstance(attempt.outcome, (MediaOpsError, OSError)), repr(attempt.outcome)
        if not attempt.succeeded:
            is_ended = attempt.is_dead or attempt.was_cancelled
            assert is_ended or attempt in self.disturbed, f"nobody disturbed it: {attempt.outcome!r}"
            # One that is killed after it was cancelled may not have come to it.
            has_let_go = attempt.was_cancelled and not attempt.is_dead and attempt not in self.disturbed
            self.is_held |= not (has_let_go or self._holds_nothing(attempt))
        self.on_end(attempt)

    def on_fault(self, attempt: Attempt) -> None:
        """Note that a step of an attempt fails."""

    def on_end(self, attempt: Attempt) -> None:
        """Check how an attempt has ended."""

    def check_last(self) -> None:
        """Check what comes once all attempts are dead and nothing fails any more."""

    def close(self) -> None:
        """Remove what the example has left."""

    def teardown(self) -> None:
        try:
            while self.running:
                self.kill_now(self.running[0])
            self.let_time_pass(UNCERTAIN_AFTER_SECONDS)
            self.check_last()
            self.nothing_was_seen_to_go_wrong()
        finally:
            for attempt in self.running:
                attempt.die()
            self.close()

    def finish_now(self, attempt: Attempt) -> Attempt:
        """Let an attempt run to its end; return it."""
        self._meet(attempt)
        attempt.finish()
        self._take_away(attempt)
        return attempt

    def kill_now(self, attempt: Attempt) -> None:
        """End an attempt where it stands."""
        attempt.die()
        self._take_away(attempt)
