"""The rules that the models of exports and enrichments share: two runs write one destination."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.models.attempts import Attempt
from tests.models.machine import TaskMachine
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
    """Two runs that write one destination."""

    #: The only place of all examples, if a test wants one.
    only: type[ModelPlace] | None = None

    place: ModelPlace
    client: Client
    tasks: Mapping[str, DatasetTask]
    #: The name of the destination.
    name: str
    #: The attempt and the content of what appeared at the destination, in order.
    published: list[tuple[Attempt, Any]]

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

    def attempt_of(self, run: str) -> Attempt:
        """Return the next attempt at a task, which has not begun yet."""
        context = self.tasks[run].context()
        return Attempt(self.clock, run, self.client, self.send, lambda: self.operator().execute(context))

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
        if had_succeeded:
            self.outdate(run)
            self.tasks[run].interruptions = 0

    def on_end(self, attempt: Attempt) -> None:
        task = self.tasks[attempt.task]
        if attempt.succeeded:
            self.check_summary(attempt, attempt.result)
            task.has_succeeded |= task.latest is attempt
        else:
            task.interruptions += 1

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

    def complete(self, run: str) -> Attempt:
        """Run a task to its end; return its last attempt."""
        return self.finish_now(self._start(run))

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
