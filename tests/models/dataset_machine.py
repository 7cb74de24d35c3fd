"""The rules that the models of exports and enrichments share: two runs write one destination, deferred or not."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.version_compat import AirflowTaskTimeout
from tests.airflow_names import TaskDeferred
from tests.models.attempts import Attempt, T, rendered
from tests.models.deferral import CANCELLED, EXECUTION_TIMEOUT, Deferral, Expiry, Triggerer
from tests.models.machine import WHICH, TaskMachine
from tests.unit.storage.places import START

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import BaseOperator

    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Request, Response
    from tests.models.places import ModelPlace

RUNS = ("today", "tomorrow")
#: The steps of an attempt before something else happens.
STEPS = st.integers(0, 60)
#: No attempt takes so many steps.
TO_ITS_END = 1_000
# Airflow may fail a task that resumes sooner after its trigger began (apache/airflow#71580).
_SETTLED_SECONDS = 10.0
# A worker, a triggerer, and the worker that resumes.
_PHASES = 3


@dataclass
class DatasetTask:
    """
    A task that writes a dataset, as Airflow and the model know it.

    :param has_succeeded: whether Airflow knows that its latest attempt has succeeded.
    :param interruptions: how many of its attempts have ended otherwise than by success, since it was cleared.
    """

    run: str
    clears: int = 0
    beginnings: int = 0
    latest: Attempt | None = None
    has_succeeded: bool = False
    interruptions: int = 0

    def context(self) -> Any:
        """Return what Airflow gives the task."""
        fields = {"dag_id": "dag", "run_id": self.run, "task_id": "task", "map_index": -1}
        start = datetime.fromtimestamp(START, timezone.utc) + timedelta(days=self.beginnings)
        return {
            "ti": SimpleNamespace(**fields, max_tries=2 + self.clears),
            "dag_run": SimpleNamespace(start_date=start),
        }


class DatasetMachine(TaskMachine):
    """
    Two runs that write one destination, in workers, or both of them in triggerers.

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

    #: The only place of all examples, if a test wants one.
    only: type[ModelPlace] | None = None

    place: ModelPlace
    client: Client
    tasks: Mapping[str, DatasetTask]
    #: The name of the destination.
    name: str
    #: The attempt and the content of what appeared at the destination, in order.
    published: list[tuple[Attempt, Any]]
    #: Whether the tasks of all examples are deferred, if a test wants one form only.
    only_deferred: bool | None = None

    is_deferred: bool

    def __init__(self) -> None:
        super().__init__()
        self.deferrals: dict[str, Deferral] = {}
        #: The events with which the attempts of workers resume.
        self.events_of: dict[Attempt, Any] = {}

    @precondition(lambda self: self.has_room)
    @rule(run=st.sampled_from(RUNS), steps=STEPS)
    def start(self, run: str, steps: int) -> None:
        if not self.tasks[run].has_succeeded:
            self.let(self._start(run), steps)

    def _start(self, run: str) -> Attempt:
        attempt = self.attempt_of(run)
        self.tasks[run].latest = attempt
        self.launch(attempt)
        self.on_start(attempt)
        return attempt

    @abstractmethod
    def operator(self) -> BaseOperator:
        """Return the task as a worker has it."""

    @abstractmethod
    def send(self, request: Request) -> Response:
        """Answer a request."""

    @abstractmethod
    def on_start(self, attempt: Attempt) -> None:
        """Note that an attempt is about to begin."""

    @rule(run=st.sampled_from(RUNS), had_run_ended=st.booleans())
    def clear(self, run: str, *, had_run_ended: bool = False) -> None:
        task = self.tasks[run]
        task.clears += 1
        # Airflow lets a run that has ended begin anew.
        task.beginnings += had_run_ended
        had_succeeded, task.has_succeeded = task.has_succeeded, False
        self.on_clear(run, had_succeeded=had_succeeded)

    def on_clear(self, run: str, *, had_succeeded: bool) -> None:
        """Note that a task was cleared."""
        self.deferrals.pop(run, None)
        if had_succeeded:
            self.outdate(run)
            self.tasks[run].interruptions = 0

    def published_by(self, attempt: Attempt) -> Any:
        """
        Return the latest dataset that an attempt has published; if it has none, that of its task.

        If another run has published the very same file meanwhile, that is as good.
        """
        own = [content for writer, content in self.published if writer is attempt]
        of_task = [content for writer, content in self.published if writer.task == attempt.task]
        published = own or of_task or [content for _, content in self.published]
        assert published, "nothing is published"
        return published[-1]

    @abstractmethod
    def check_summary(self, attempt: Attempt, summary: Mapping[str, Any]) -> None:
        """Check the figures of an attempt that has written a dataset, or has found the one of its task."""

    @abstractmethod
    def mend_the_service(self) -> None:
        """Let the service answer as it should from now on."""

    def check_last(self) -> None:
        self.mend_the_service()
        # Either run has to get past what is left; after one that has succeeded, no history differs from another.
        run = RUNS[len(self.published) % len(RUNS)]
        self.clear(run)
        attempt = self.complete(run)
        assert attempt.succeeded, repr(attempt.outcome)
        found = {name.partition("/")[0] for name in self.place.names()}
        assert found == {self.name, f".{self.name}.staging"}, f"something is left behind: {found}"

    def close(self) -> None:
        self.place.close()

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
            triggerer.fault = CANCELLED
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
        """Return the next attempt at a task, which has not begun yet."""
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

    def on_end(self, attempt: Attempt) -> None:
        task = self.tasks[attempt.task]
        if isinstance(attempt, Expiry):
            is_timeout = isinstance(attempt.outcome, AirflowTaskTimeout)
            assert attempt.is_dead or is_timeout, f"it came to its time limit, and met {attempt.outcome!r}"
        elif isinstance(attempt, Triggerer):
            self._on_trigger_end(attempt)
        elif attempt.succeeded and isinstance(attempt.result, Deferral):
            if task.latest is attempt:
                attempt.result.is_disturbed = attempt in self.disturbed
                self.deferrals[attempt.task] = attempt.result
        elif attempt.succeeded and attempt in self.events_of:
            assert attempt.result == self.events_of[attempt]["value"], "not what the event says"
            task.has_succeeded |= task.latest is attempt
        elif attempt.succeeded:
            self.check_summary(attempt, attempt.result)
            task.has_succeeded |= task.latest is attempt
        else:
            task.interruptions += 1

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
        return self.finish_now(self._start(run))

    def complete(self, run: str) -> Attempt:
        """Run a task to its end; return its last attempt."""
        for _ in range(_PHASES):
            attempt = self.complete_phase(run)
            if run not in self.deferrals:
                break
        return attempt
