"""
Base classes of the operators: a task that can be stopped and deferred, and says what it has read and written.

One that writes a dataset resumes what an earlier attempt has saved, here or in the triggerer.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_provider_mediaops.task_failure import (
    StoppableTask,
    ending_task,
    given_arguments,
    is_templated,
    use_retry_policy,
)
from airflow_provider_mediaops.version_compat import AirflowTaskTimeout, TaskDeferralTimeout

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from airflow_provider_mediaops.lineage import TaskLineage
    from airflow_provider_mediaops.storage.dataset import Dataset, Staging
    from airflow_provider_mediaops.storage.ownership import DatasetWork


class ServiceOperator(StoppableTask, BaseOperator):
    """
    Base class of the operators.

    The lineage of a task follows from the rendered arguments and from what this attempt has done. It never follows from
    an XCom, which may be missing, and which users can edit.
    """

    #: The class's own arguments that may be templated; a subclass may have other template fields.
    own_arguments: ClassVar[tuple[str, ...]]
    # The result of this attempt, once it has one.
    _outcome: Mapping[str, Any] | None = None

    def __init__(self, **kwargs: Any) -> None:
        # Without this constructor, Airflow takes None for the inlets of a mapped task from that of its own class.
        super().__init__(**kwargs)

    def _check_known(self) -> None:
        """Check the arguments that are not templated, at the end of the constructor."""
        self._check(given_arguments(self), is_templated)
        use_retry_policy(self)

    @abstractmethod
    def _check(self, given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
        """Check the arguments that are known: all but the templated ones at parse time."""
        ...

    @abstractmethod
    def _lineage(self, outcome: Mapping[str, Any] | None) -> TaskLineage:
        """Return the lineage of the task, whose result is None before it is done; raise ValueError as it would."""
        ...

    def _note_in_events(self, context: Context, outcome: Mapping[str, Any]) -> None:
        """Keep the result of this attempt, and put what was written into the events of the outlets."""
        from airflow_provider_mediaops.lineage import note_in_events

        self._outcome = outcome
        if self.outlets:
            note_in_events(context, self.outlets, self._lineage(outcome), self.log.warning)

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any] | None:
        """Return the inputs and outputs of a task that starts, for OpenLineage."""
        return self._openlineage(has_outputs=True)

    def get_openlineage_facets_on_complete(self, task_instance: object) -> OperatorLineage[Any, Any] | None:
        """Return the lineage of a task that has ended, also by a failure; without a result it has no outputs."""
        return self._openlineage(has_outputs=self._outcome is not None)

    def _openlineage(self, *, has_outputs: bool) -> OperatorLineage[Any, Any] | None:
        from dataclasses import replace

        from airflow_provider_mediaops.lineage import TaskLineage, operator_lineage

        try:
            lineage = self._lineage(self._outcome)
        except ValueError:
            # The task itself refuses these arguments, with a message.
            lineage = TaskLineage()
        return operator_lineage(lineage if has_outputs else replace(lineage, outputs=()))

    def _defer_to(
        self,
        trigger: BaseTrigger,
        destination: str,
        *,
        started: float,
        limit: float | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        """
        Defer the task to a trigger that writes a destination, if the arguments of the trigger are short enough.

        The deferral is limited by ``execution_timeout``, and by the task's own ``limit`` in seconds, which the trigger
        keeps.
        """
        from airflow_provider_mediaops.storage.paths import warn_if_deferred_to_local
        from airflow_provider_mediaops.triggers.base import can_defer, deferral_timeout

        if can_defer(self, trigger):
            warn_if_deferred_to_local(destination, self.log.warning)
            timeout = deferral_timeout(self, started, limit)
            self.defer(trigger=trigger, method_name="execute_complete", kwargs=kwargs, timeout=timeout)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume after the triggerer, and end at ``execution_timeout`` as in a worker."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralTimeout as error:
            return self._after_deferral_timeout(error, context)

    def _after_deferral_timeout(self, error: TaskDeferralTimeout, context: Context) -> Any:
        raise AirflowTaskTimeout(f"The task took longer than {self.execution_timeout}.") from error


class DatasetOperator(ServiceOperator):
    """Base class of the operators that write a dataset; an attempt resumes what an earlier one has saved, anywhere."""

    #: The trigger that works in this task's place, as ``module:class``, and the argument with the connection's id.
    trigger_class: ClassVar[str]
    conn_id_field: ClassVar[str]
    destination: Any
    deferrable: bool

    @abstractmethod
    def _read_work(self, context: Context) -> DatasetWork:
        """Read the rendered arguments; keep the paths as they are, for the lineage."""

    def _surveyed(self, work: Any) -> DatasetWork:
        """Return the work with what needs a long look at its source."""
        done: DatasetWork = work
        return done

    def _attempt(self, work: Any, staging: Staging, **more: Any) -> Any:
        """Make an attempt, which has the methods ``save``, ``abort``, ``finish`` and ``end_line``."""
        attempt_class = resolve_name(resolve_name(self.trigger_class).attempt_class)
        return attempt_class(work, staging, self.log.info, self.log.warning, **more)

    @abstractmethod
    def _items(self, hook: Any, attempt: Any) -> Generator[Any, None, None]:
        """Yield what is left to be fetched, in parts that are saved one by one."""

    def _before_deferral(self, work: Any, dataset: Dataset) -> tuple[DatasetWork, dict[str, Any]]:
        """Return the work as the triggerer does it, and what the task that resumes has to know."""
        return work, {}

    def execute(self, context: Context) -> dict[str, Any]:
        """Do what is left of the work, here or in the triggerer, publish the dataset, and return the summary."""
        from airflow_provider_mediaops.triggers.dataset import begun

        started = time.monotonic()
        with ending_task():
            work = self._read_work(context)
            owner, dataset = work.owned_by(), work.dataset()
            summary = dataset.published(owner)
            if summary is not None:
                self.log.info("An earlier attempt of this task has written %s already.", self.destination)
                return self._returned(context, summary)
            work = self._surveyed(work)
            dataset = work.dataset()
            if self.deferrable:
                self._defer(work, dataset, started)
            with dataset.staging(owner) as staging, begun(partial(self._attempt, work, staging)) as attempt:
                self._save_all(attempt)
            self.log.info("%s", attempt.end_line())
        return self._returned(context, staging.summary)

    def _save_all(self, attempt: Any) -> None:
        hook_class = resolve_name(resolve_name(self.trigger_class).hook_class)
        with (
            hook_class(getattr(self, self.conn_id_field)).stopped_by(self.stop) as hook,
            closing(self._items(hook, attempt)) as items,
        ):
            for item in items:
                attempt.save(item)

    def _defer(self, work: DatasetWork, dataset: Dataset, started: float) -> None:
        # Whether the destination can be written, and nobody else writes it, is known before the deferral.
        dataset.check(work.owned_by())
        work, kept = self._before_deferral(work, dataset)
        conn_id = getattr(self, self.conn_id_field)
        trigger = resolve_name(self.trigger_class)(conn_id=conn_id, work=asdict(work))
        self._defer_to(trigger, self.destination, started=started, kwargs=kept)

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the summary of the work that was done in the triggerer, or raise the typed error that it met."""
        from airflow_provider_mediaops.triggers.base import value_of

        with ending_task():
            summary = value_of(event)
        return self._returned(context, summary)

    def _returned(self, context: Context, summary: dict[str, Any]) -> dict[str, Any]:
        self._note_in_events(context, summary)
        return summary
