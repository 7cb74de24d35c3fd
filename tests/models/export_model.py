"""The model of an export."""

from __future__ import annotations

import csv
import io
import itertools
import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.video.errors import VIDEO_RULES
from tests.models.attempts import current_attempt
from tests.models.dataset_machine import RUNS, STEPS, TO_ITS_END, DatasetMachine, DatasetTask
from tests.models.deferral import Triggerer
from tests.models.listing_service import ODDITIES, REFUSALS, ListingService, fault_of, record_of
from tests.models.machine import WHICH
from tests.models.places import DiskPlace, StorePlace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_provider_mediaops.http.exchange import Request, Response
    from tests.models.attempts import Attempt
    from tests.models.places import ModelPlace

_NUMBERS = st.integers(0, 9)


@cache
def _parsed_task() -> ExportSubscriptionsOperator:
    return ExportSubscriptionsOperator(
        task_id="export", destination="{{ destination }}", mine=True, page_size="{{ page_size }}"
    )


@dataclass
class ExportTask(DatasetTask):
    """
    A task, as Airflow and the model know it.

    :param since: the number of the snapshot of the service that its dataset may begin with; None before its first try.
    :param is_quiet: whether nothing but deaths has disturbed it since.
    """

    since: int | None = None
    is_quiet: bool = True


class ExportMachine(DatasetMachine):
    """
    Two runs export the same listing to one destination, in workers or in triggerers.

    - Whatever appears at the destination is a whole dataset of one run: each record that the service had all the time
      while that run listed it, once, in the service's order; no record that it has not had then, and none twice.
    - An attempt that succeeds returns the figures of such a dataset, which it, or an earlier attempt of its task, has
      published.
    - An attempt that nobody disturbs succeeds.
    - Deaths alone cost a request each, at most.
    - A cleared task that had succeeded lists anew.
    - No dataset replaces one that was published since its attempt began.
    - A trigger waits for the reset of a quota, and holds nothing meanwhile: others are not disturbed by it, until it
      goes on.
    - In the end the destination and the hidden folder beside it are left, and nothing else.
    """

    tasks: dict[str, ExportTask]
    published: list[tuple[Attempt, list[tuple[int, int]]]]

    def __init__(self) -> None:
        super().__init__()
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
        self.published = []
        #: When each attempt has begun to write, by the number of the event, and when it has published.
        self.begun: dict[Attempt, int] = {}
        self.published_at: dict[Attempt, int] = {}
        self.events = itertools.count()
        self.start_first(run, steps, is_deferred=is_deferred)

    def on_start(self, attempt: Attempt) -> None:
        task = self.tasks[attempt.task]
        if task.since is None:
            task.since = self.service.now
        if self.service.faults:
            self.on_broken_service({attempt})
            task.is_quiet = False
        for other in self.tasks.values():
            # What another run has committed is removed; two attempts of one run both ask.
            other.is_quiet &= other is task and len(self.running) == 1

    def operator(self) -> ExportSubscriptionsOperator:
        destination = f"{self.place.folder}/{self.name}"
        return self.in_form(_parsed_task(), destination=destination, page_size=self.service.page_size)

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

    def on_clear(self, run: str, *, had_succeeded: bool) -> None:
        super().on_clear(run, had_succeeded=had_succeeded)
        task = self.tasks[run]
        # An attempt that died while it published may have: then the cleared task lists anew.
        task.is_quiet = had_succeeded
        if had_succeeded:
            task.since = self.service.now
            for tasks in (self.service.cut_short, self.service.shuffled):
                tasks.discard(run)
            self.service.served.pop(run, None)

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
        begun = self.begun.get(attempt)
        for other, at in self.published_at.items():
            if begun is not None and other is not attempt and begun < at:
                self.wrong.append("it replaces a newer one")
        self.published.append((attempt, records))
        self.published_at[attempt] = next(self.events)

    def on_begin(self) -> None:
        """Note that the current attempt knows which file it is to replace."""
        self.begun[current_attempt()] = next(self.events)

    def send(self, request: Request) -> Response:
        return self.service.send(request)

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

    def mend_the_service(self) -> None:
        self.service.faults = []


def records_in(name: str, content: bytes) -> list[tuple[int, int]]:
    """Return the records of a dataset."""
    if name.endswith(".csv"):
        texts: Iterator[Any] = (row["record"] for row in csv.DictReader(io.StringIO(content.decode())))
    else:
        texts = iter(content.splitlines())
    return [record_of(json.loads(text)) for text in texts]
