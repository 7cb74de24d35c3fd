"""The model of an export: two runs write one destination, deferred or not."""

from __future__ import annotations

import asyncio
import csv
import io
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.video.errors import VIDEO_RULES
from tests.airflow_names import TaskDeferred
from tests.models.attempts import Attempt, current_attempt
from tests.models.deferral import CANCELLED, EXECUTION_TIMEOUT, Deferral, Triggerer
from tests.models.listing_service import ODDITIES, REFUSALS, ListingService, fault_of, record_of
from tests.models.machine import WHICH, TaskMachine
from tests.models.places import DiskPlace, StorePlace
from tests.unit.storage.places import START

if TYPE_CHECKING:
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
_NUMBERS = st.integers(0, 9)


@cache
def _parsed_task() -> ExportSubscriptionsOperator:
    return ExportSubscriptionsOperator(
        task_id="export", destination="{{ destination }}", mine=True, page_size="{{ page_size }}"
    )


@dataclass
class ExportTask:
    """
    A task, as Airflow and the model know it.

    :param has_succeeded: whether Airflow knows that its latest attempt has succeeded.
    :param interruptions: how many of its attempts have ended otherwise than by success, since it was cleared.
    :param since: the number of the snapshot of the service that its dataset may begin with; None before its first try.
    :param is_quiet: whether nothing but deaths has disturbed it since.
    """

    run: str
    clears: int = 0
    beginnings: int = 0
    latest: Attempt | None = None
    has_succeeded: bool = False
    interruptions: int = 0
    since: int | None = None
    is_quiet: bool = True

    def context(self) -> Any:
        """Return what Airflow gives the task."""
        fields = {"dag_id": "dag", "run_id": self.run, "task_id": "task", "map_index": -1}
        start = datetime.fromtimestamp(START, timezone.utc) + timedelta(days=self.beginnings)
        return {
            "ti": SimpleNamespace(**fields, max_tries=2 + self.clears),
            "dag_run": SimpleNamespace(start_date=start),
        }


class ExportMachine(TaskMachine):
    """
    Two runs export the same listing to one destination, in workers, or both of them in triggerers.

    - Whatever appears at the destination is a whole dataset of one run: each record that the service had all the time
      while that run listed it, once, in the service's order; no record that it has not had then, and none twice.
    - An attempt that succeeds returns the figures of such a dataset, which it, or an earlier attempt of its task, has
      published.
    - An attempt that nobody disturbs succeeds.
    - Deaths alone cost a request each, at most.
    - A cleared task that had succeeded lists anew.
    - No dataset replaces one that was published since its attempt began.
    - In the end the destination and the hidden folder beside it are left, and nothing else.

    To start a task is to do what is next: a worker begins it, a triggerer runs its trigger, or a worker resumes it with
    the event. A triggerer may take over the trigger of another one that still runs.

    - A trigger sends one event: the figures of a dataset that is published, or a typed error. It sends none before the
      task may resume.
    - A trigger that nobody disturbs sends figures; so it is the same after it was serialized and made again.
    - A trigger that is cancelled sends nothing, and lets go of everything.
    - A trigger waits for the reset of a quota, and holds nothing meanwhile: others are not disturbed by it, until it
      goes on.
    - A task that is resumed returns what the event says, or raises its error.
    - A deferral takes no longer than the rest of ``execution_timeout``.
    """

    #: The only place and form of all examples, if a test wants one.
    only: type[ModelPlace] | None = None
    only_deferred: bool | None = None

    def __init__(self) -> None:
        super().__init__()
        self.deferrals: dict[str, Deferral] = {}
        #: The events with which the attempts of workers resume.
        self.events_of: dict[Attempt, Any] = {}
        #: The triggers that have met a quota that was used up.
        self.patient: set[Attempt] = set()

    @initialize(
        place=st.sampled_from([DiskPlace, StorePlace]),
        suffix=st.sampled_from(["jsonl", "csv"]),
        numbers=st.sets(_NUMBERS, max_size=7),
        page_size=st.integers(1, 3),
        is_deferred=st.booleans(),
        run=st.sampled_from(RUNS),
        steps=STEPS,
    )
    def begin(
        self,
        *,
        place: type[ModelPlace],
        suffix: str,
        numbers: set[int],
        page_size: int,
        is_deferred: bool,
        run: str,
        steps: int,
    ) -> None:
        self.name = f"d.{suffix}"
        self.place = (self.only or place)(self.clock)
        self.place.on_file, self.clock.on_note = self.on_file, self.on_begin
        self.service = ListingService(page_size, dict.fromkeys(numbers, 0))
        self.tasks = {run: ExportTask(run) for run in RUNS}
        self.client = Client(("https://video.example",), VIDEO_RULES, retry=RetryPolicy(max_attempts=2))
        #: The attempt and the records of what appeared at the destination, in order.
        self.published: list[tuple[Attempt, list[tuple[int, int]]]] = []
        #: What is at the destination.
        self.content: bytes | None = None
        #: When each attempt has begun to write, by the number of the event, and what was at the destination then.
        self.begun: dict[Attempt, tuple[int, bytes | None]] = {}
        #: When each attempt has published, by the number of the event.
        self.published_at: dict[Attempt, int] = {}
        self.events = itertools.count()
        self.is_deferred = is_deferred if self.only_deferred is None else self.only_deferred
        if self.is_deferred:
            # Most of what can happen is in the triggerer.
            self.finish_now(self._start(run))
            steps //= 3
        self.start(run, steps)

    @precondition(lambda self: self.has_room)
    @rule(run=st.sampled_from(RUNS), steps=STEPS)
    def start(self, run: str, steps: int) -> None:
        if not self.tasks[run].has_succeeded:
            self.let(self._start(run), steps)

    def _start(self, run: str) -> Attempt:
        task, attempt = self.tasks[run], self.attempt_of(run)
        task.latest = attempt
        self.launch(attempt)
        if task.since is None:
            task.since = self.service.now
        if self.service.faults:
            self.on_broken_service({attempt})
            task.is_quiet = False
        for other in self.tasks.values():
            # What another run has committed is removed; two attempts of one run both ask.
            other.is_quiet &= other is task and len(self.running) == 1
        return attempt

    def operator(self) -> ExportSubscriptionsOperator:
        """Return the task as one of its tries has it: Airflow parses it once, then copies it and renders its fields."""
        task = _parsed_task().prepare_for_execution()
        task.destination, task.page_size = f"{self.place.folder}/{self.name}", self.service.page_size
        task.deferrable, task.execution_timeout = self.is_deferred, EXECUTION_TIMEOUT
        return task

    @rule(number=_NUMBERS)
    def change_a_record(self, number: int) -> None:
        self.service.change(number)
        self._disquiet()

    @rule(number=_NUMBERS)
    def remove_a_record(self, number: int) -> None:
        self.service.remove(number)
        self._disquiet()

    @rule(wrong=st.sampled_from([*REFUSALS, *ODDITIES]), times=st.integers(1, 4))
    def break_the_service(self, wrong: str, times: int) -> None:
        self.service.faults = [wrong] * times
        self.on_broken_service(set(self.running))
        self._disquiet()

    @precondition(lambda self: self.triggerers)
    @rule(which=WHICH, times=st.integers(1, 4))
    def use_up_the_quota(self, which: int, times: int) -> None:
        """Let a trigger go on until it waits for the reset of its quota."""
        self.break_the_service("quota", times)
        triggerer = self.triggerers[which % len(self.triggerers)]
        for _ in range(TO_ITS_END):
            if triggerer.ended or triggerer.holds_nothing:
                break
            self.let(triggerer, 1)

    def on_broken_service(self, attempts: set[Attempt]) -> None:
        """Note that the service may fail attempts."""
        self.disturbed |= {attempt for attempt in attempts if not self._is_patient(attempt)}

    def _is_patient(self, attempt: Attempt) -> bool:
        """Return whether an attempt waits until the service answers again: a trigger does, the first time."""
        is_first = attempt not in self.patient
        self.patient.add(attempt)
        return isinstance(attempt, Triggerer) and is_first and set(self.service.faults) == {"quota"}

    @rule(run=st.sampled_from(RUNS), had_run_ended=st.booleans())
    def clear(self, run: str, *, had_run_ended: bool = False) -> None:
        task = self.tasks[run]
        task.clears += 1
        # Airflow lets a run that has ended begin anew.
        task.beginnings += had_run_ended
        had_succeeded, task.has_succeeded = task.has_succeeded, False
        self.deferrals.pop(run, None)
        # An attempt that died while it published may have: then the cleared task lists anew.
        task.is_quiet = had_succeeded
        if had_succeeded:
            self.outdate(run)
            task.interruptions, task.since = 0, self.service.now
            for tasks in (self.service.cut_short, self.service.shuffled):
                tasks.discard(run)
            self.service.served.pop(run, None)

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

    def _disquiet(self) -> None:
        for task in self.tasks.values():
            task.is_quiet = False

    def on_fault(self, attempt: Attempt) -> None:
        self._disquiet()

    def on_file(self, name: str, content: bytes) -> None:
        records, attempt = records_in(name, content), current_attempt()
        faults = {run: self._fault_of(run, records, attempt) for run in self.tasks}
        if "" not in faults.values():
            self.wrong.append(f"no dataset of any run: {faults}")
        begun, noted = self.begun.get(attempt, (math.inf, None))
        others = [at for other, at in self.published_at.items() if other is not attempt]
        # A store whose versions are digests cannot tell one file from another of the same bytes, and need not.
        is_same = isinstance(self.place, StorePlace) and noted == self.content
        if begun < max(others, default=0) and not is_same:
            self.wrong.append("it replaces a newer one")
        self.content = content
        self.published.append((attempt, records))
        self.published_at[attempt] = next(self.events)

    def on_begin(self) -> None:
        """Note that the current attempt knows which file it is to replace."""
        self.begun[current_attempt()] = (next(self.events), self.content)

    def _fault_of(self, run: str, records: list[tuple[int, int]], attempt: Attempt) -> str:
        since, until = self.tasks[run].since, self.service.listed_at.get(run)
        is_outdated = attempt in self.outdated and attempt.task == run
        if is_outdated:
            since = 0
        if since is None or until is None or until < since:
            return "not listed"
        return fault_of(
            records,
            self.service.snapshots[since : until + 1],
            complete=not is_outdated and run not in self.service.cut_short,
            in_order=not is_outdated and run not in self.service.shuffled,
        )

    def check_summary(self, attempt: Attempt, summary: Mapping[str, Any]) -> None:
        records = self.published_by(attempt)
        assert summary["rows"] == len(records), "other figures than those of the dataset"
        fault = self._fault_of(attempt.task, records, attempt)
        assert not fault or attempt in self.outdated, fault
        task = self.tasks[attempt.task]
        if task.is_quiet:
            least = max(1, -(-len(self.service.records) // self.service.page_size))
            assert self.service.served[task.run] <= least + task.interruptions, "asked again for what was saved"

    def check_last(self) -> None:
        self.service.faults = []
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
        triggerer = self.triggerers[which % len(self.triggerers)]
        self.let(triggerer, steps)
        if not triggerer.ended:
            triggerer.fault = CANCELLED
            self.let(triggerer, more)
        if following and self.has_room:
            self.start(following, steps)

    def attempt_of(self, run: str) -> Attempt:
        """Return the next attempt at a task, which has not begun yet."""
        deferral, context = self.deferrals.get(run), self.tasks[run].context()
        if deferral is None:
            return Attempt(self.clock, run, self.client, self.service.send, lambda: self._begin(context))
        if deferral.waits:
            return Triggerer(self.clock, run, self.client, self.service.send, deferral)
        # If this attempt fails, the next one begins anew.
        del self.deferrals[run]
        client, send = self.client, self.service.send
        resuming = Attempt(self.clock, run, client, send, lambda: deferral.resume(self.operator(), context))
        self.events_of[resuming] = deferral.event
        if deferral.is_disturbed:
            self.disturbed.add(resuming)
        return resuming

    def _begin(self, context: Any) -> Any:
        try:
            return self.operator().execute(context)
        except TaskDeferred as deferred:
            return Deferral.of(deferred)

    def on_end(self, attempt: Attempt) -> None:
        task = self.tasks[attempt.task]
        if isinstance(attempt, Triggerer):
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

    def complete(self, run: str) -> Attempt:
        """Run a task to its end; return its last attempt."""
        for _ in range(_PHASES):
            attempt = self.finish_now(self._start(run))
            if run not in self.deferrals:
                break
        return attempt


def records_in(name: str, content: bytes) -> list[tuple[int, int]]:
    """Return the records of a dataset."""
    if name.endswith(".csv"):
        texts: Iterator[Any] = (row["record"] for row in csv.DictReader(io.StringIO(content.decode())))
    else:
        texts = iter(content.splitlines())
    return [record_of(json.loads(text)) for text in texts]
