"""Tasks that defer: what Airflow's database has of them, and the triggerers that run their triggers."""

from __future__ import annotations

import asyncio
import importlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.version_compat import AirflowTaskTimeout
from tests.airflow_names import TaskDeferred
from tests.models.attempts import Attempt, AttemptLoop, T, rendered, take_turn
from tests.models.dataset_machine import RUNS, DatasetMachine
from tests.models.machine import WHICH
from tests.unit.sensor_forms import first_event
from tests.unit.storage.dying import DeathError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import BaseOperator
    from airflow.triggers.base import BaseTrigger

    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Request, Response
    from tests.models.attempts import MadeUpClock

_CANCELLED = "cancelled"
# Airflow may fail a task that resumes sooner after its trigger began (apache/airflow#71580).
_SETTLED_SECONDS = 10.0
# Shorter waits are within a call, or before its next try.
_WAIT_SECONDS = 1.0
# No call waits so long: a trigger that does is between two attempts.
_LONG_WAIT_SECONDS = 600.0
#: No attempt takes so many steps.
TO_ITS_END = 1_000
#: A worker, a triggerer, and the worker that resumes.
_PHASES = 3
#: The time limit of the tasks.
EXECUTION_TIMEOUT = timedelta(hours=3)
# What Airflow's scheduler puts in the place of the method that resumes a task whose deferral has timed out.
_FAILING, _FAILURE = "__fail__", {"error": "Trigger timeout"}


@dataclass(eq=False)
class Deferral:
    """
    A deferred task, as Airflow's database has it.

    :param row: the class and the arguments of its trigger, as JSON.
    :param method: the name of the method that resumes it.
    :param arguments: the arguments of the method, as JSON.
    :param expires: the time at which it times out, in seconds since 1970.
    :param event: the payload of the first event of its trigger; None before.
    :param is_disturbed: whether something has disturbed the attempts that made it, or that sent its event.
    """

    row: str
    method: str
    arguments: str
    expires: float
    event: Any = None
    is_disturbed: bool = False

    @classmethod
    def of(cls, deferred: TaskDeferred, now: float) -> Deferral:
        """Keep what the database does."""
        row, arguments = json.dumps(deferred.trigger.serialize()), json.dumps(deferred.kwargs or {})
        limit = deferred.timeout
        assert limit is not None, "a deferral without a time limit"
        assert timedelta(0) < limit <= EXECUTION_TIMEOUT, f"a deferral of {limit}"
        return cls(row, deferred.method_name, arguments, now + limit.total_seconds())

    @property
    def is_expired(self) -> bool:
        """Whether Airflow has found that it took too long."""
        return self.method == _FAILING

    @property
    def waits(self) -> bool:
        """Whether it waits for the event of its trigger."""
        return self.event is None and not self.is_expired

    def expire(self) -> None:
        """Let the task fail when it is resumed, as Airflow's scheduler does."""
        self.method, self.arguments = _FAILING, json.dumps(_FAILURE)

    def trigger(self) -> BaseTrigger:
        """Make the trigger again, as a triggerer does."""
        path, arguments = json.loads(self.row)
        module, _, name = path.rpartition(".")
        trigger: BaseTrigger = getattr(importlib.import_module(module), name)(**arguments)
        # Without one, it would be in `dag.test()`.
        trigger.trigger_id = 1
        return trigger

    def resume(self, task: BaseOperator, context: Any) -> dict[str, Any]:
        """Resume the task with the event, as a worker does."""
        arguments = json.loads(self.arguments)
        if not self.is_expired:
            arguments["event"] = self.event
        summary: dict[str, Any] = task.resume_execution(self.method, arguments, context)
        return summary


class Triggerer(Attempt):
    """A triggerer that runs the trigger of a deferred task until its first event, which is the result."""

    deferral: Deferral
    _trigger: asyncio.Task[Any]

    def __init__(
        self,
        clock: MadeUpClock,
        task: str,
        client: Client,
        send: Callable[[Request], Response],
        deferral: Deferral,
    ) -> None:
        self.deferral, self.began = deferral, clock.now
        self._was_cancelled = self._holds_nothing = False
        self._beginnings = 1
        super().__init__(clock, task, client, send, self._event)

    @property
    def was_cancelled(self) -> bool:
        """Whether Airflow has told the trigger to end."""
        return self._was_cancelled

    @property
    def holds_nothing(self) -> bool:
        """Whether the trigger waits between two attempts."""
        return self._holds_nothing

    @property
    def beginnings(self) -> int:
        """How often the trigger has begun to write."""
        return self._beginnings

    def pause(self) -> str:
        fault = super().pause()
        if fault == _CANCELLED:
            self._cancel()
            return ""
        return fault

    def may_wait(self, seconds: float) -> bool:
        """Let others go on before a wait; return whether it still begins, because nobody has ended the trigger."""
        if seconds < _WAIT_SECONDS or self.is_dead:
            return True
        was_cancelled, self._holds_nothing = self._was_cancelled, seconds >= _LONG_WAIT_SECONDS
        try:
            take_turn()
        except DeathError:
            # What it still does, to its end, changes nothing.
            self._trigger.cancel()
            return False
        if self._holds_nothing:
            self._beginnings += 1
        self._holds_nothing = False
        return self._was_cancelled == was_cancelled

    def _cancel(self) -> None:
        self._was_cancelled = True
        self._trigger.cancel()

    def _event(self) -> Any:
        loop = AttemptLoop()
        self._trigger = loop.create_task(first_event(self.deferral.trigger()))
        try:
            return loop.run_until_complete(self._trigger)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()


class Expiry(Attempt):
    """A worker that resumes a task whose deferral has timed out: the task fails, and touches nothing."""

    @property
    def holds_nothing(self) -> bool:
        """Whether it holds neither a destination nor a lease, as ever."""
        return True


class DeferringMachine(DatasetMachine):
    """
    Tasks that work in workers, or all of them in triggerers.

    To start a task is to do what is next: a worker begins it, a triggerer runs its trigger, or a worker resumes it with
    the event. A triggerer may take over the trigger of another one that still runs.

    - A trigger sends one event: the figures of a dataset that is published, or a typed error. It sends none before the
      task may resume.
    - A trigger that nobody disturbs sends figures; so it is the same after it was serialized and made again.
    - A trigger that is cancelled sends nothing, and lets go of everything.
    - A task that is resumed returns what the event says, or raises its error.
    - A deferral takes no longer than the rest of ``execution_timeout``. Then its trigger is cancelled, perhaps late,
      and its task fails as it does at that limit in a worker; the next attempt goes on from there.
    """

    #: Whether the tasks of all examples are deferred, if a test wants one form only.
    only_deferred: bool | None = None

    is_deferred: bool

    def __init__(self) -> None:
        super().__init__()
        self.deferrals: dict[str, Deferral] = {}
        #: The events with which the attempts of workers resume.
        self.events_of: dict[Attempt, Any] = {}

    @property
    def triggerers(self) -> list[Triggerer]:
        """The triggerers that run."""
        return [attempt for attempt in self.running if isinstance(attempt, Triggerer)]

    @precondition(lambda self: self.triggerers)
    @rule(
        which=WHICH,
        steps=st.integers(0, 10),
        more=st.sampled_from([1, TO_ITS_END]),
        following=st.sampled_from([None, *RUNS]),
    )
    def cancel(self, which: int, steps: int, more: int, following: str | None) -> None:
        """Cancel a trigger: its task was cleared, or its triggerer shuts down or has lost it to another one."""
        self._cancel(self.triggerers[which % len(self.triggerers)], steps, more)
        if following and self.has_room:
            self.start(following, steps)

    def _cancel(self, triggerer: Triggerer, steps: int, more: int) -> None:
        self.let(triggerer, steps)
        if not triggerer.ended:
            triggerer.fault = _CANCELLED
            self.let(triggerer, more)

    @precondition(lambda self: any(deferral.waits for deferral in self.deferrals.values()))
    @rule(which=WHICH, steps=st.integers(0, 10), more=st.sampled_from([1, TO_ITS_END]), resumes=st.booleans())
    def time_out(self, which: int, steps: int, more: int, resumes: bool) -> None:  # noqa: FBT001
        """Let a deferral take too long: the scheduler finds that, and the triggerer cancels the trigger afterwards."""
        waiting = [(run, deferral) for run, deferral in self.deferrals.items() if deferral.waits]
        run, deferral = waiting[which % len(waiting)]
        self.let_time_pass(max(deferral.expires - self.clock.now, 0.0))
        deferral.expire()
        for triggerer in [each for each in self.triggerers if each.deferral is deferral]:
            self._cancel(triggerer, steps, more)
        if resumes and self.has_room and self.deferrals.get(run) is deferral:
            self.start(run, TO_ITS_END)

    def start_first(self, run: str, steps: int, *, is_deferred: bool) -> None:
        """Start a task before anything else happens."""
        self.is_deferred = is_deferred if self.only_deferred is None else self.only_deferred
        if self.is_deferred:
            # Most of what can happen is in the triggerer.
            self.complete_phase(run)
            steps //= 3
        self.start(run, steps)

    def in_form(self, task: T, **fields: Any) -> T:
        """Return a task as one of its tries has it, with these fields."""
        return rendered(task, **fields, deferrable=self.is_deferred, execution_timeout=EXECUTION_TIMEOUT)

    def attempt_of(self, run: str) -> Attempt:
        deferral, context = self.deferrals.get(run), self.tasks[run].context()
        if deferral is None:
            return Attempt(self.clock, run, self.client, self.send, lambda: self._begin(context))
        if deferral.waits:
            return Triggerer(self.clock, run, self.client, self.send, deferral)
        # If this attempt fails, the next one begins anew.
        del self.deferrals[run]
        worker = Expiry if deferral.is_expired else Attempt
        resuming = worker(self.clock, run, self.client, self.send, lambda: deferral.resume(self.operator(), context))
        if deferral.is_expired:
            self.disturbed.add(resuming)
            return resuming
        self.events_of[resuming] = deferral.event
        if deferral.is_disturbed:
            self.disturbed.add(resuming)
        return resuming

    def _begin(self, context: Any) -> Any:
        try:
            return self.operator().execute(context)
        except TaskDeferred as deferred:
            return Deferral.of(deferred, self.clock.now)

    def on_clear(self, run: str, *, had_succeeded: bool) -> None:
        self.deferrals.pop(run, None)
        super().on_clear(run, had_succeeded=had_succeeded)

    def on_end(self, attempt: Attempt) -> None:
        if isinstance(attempt, Expiry):
            is_timeout = isinstance(attempt.outcome, AirflowTaskTimeout)
            assert attempt.is_dead or is_timeout, f"it came to its time limit, and met {attempt.outcome!r}"
        elif isinstance(attempt, Triggerer):
            self._on_trigger_end(attempt)
        elif attempt.succeeded and isinstance(attempt.result, Deferral):
            if self.tasks[attempt.task].latest is attempt:
                attempt.result.is_disturbed = attempt in self.disturbed
                self.deferrals[attempt.task] = attempt.result
        elif attempt.succeeded and attempt in self.events_of:
            assert attempt.result == self.events_of[attempt]["value"], "not what the event says"
            self.tasks[attempt.task].has_succeeded |= self.tasks[attempt.task].latest is attempt
        else:
            super().on_end(attempt)

    def _on_trigger_end(self, triggerer: Triggerer) -> None:
        if not triggerer.succeeded:
            self.tasks[triggerer.task].interruptions += 1
            was_stopped = triggerer.is_dead or isinstance(triggerer.outcome, asyncio.CancelledError)
            assert was_stopped, f"the triggerer met {triggerer.outcome!r}"
            return
        event = triggerer.result
        assert self.clock.now - triggerer.began >= _SETTLED_SECONDS, "an event before the task may resume"
        assert triggerer in self.disturbed or not triggerer.was_cancelled, "an event, although it was cancelled"
        if event["status"] == "done":
            self.check_summary(triggerer, event["value"])
        else:
            assert triggerer in self.disturbed, f"nobody disturbed it: {event}"
            assert event["error"]["type"] != TemporaryError.__name__, event
            # What disturbed it may have kept it from releasing its lease.
            self.is_held = True
        if self.deferrals.get(triggerer.task) is triggerer.deferral and triggerer.deferral.waits:
            triggerer.deferral.event = event
            triggerer.deferral.is_disturbed |= triggerer in self.disturbed

    def complete_phase(self, run: str) -> Attempt:
        """Run what is next of a task to its end."""
        return super().complete(run)

    def complete(self, run: str) -> Attempt:
        for _ in range(_PHASES):
            attempt = self.complete_phase(run)
            if run not in self.deferrals:
                break
        return attempt
