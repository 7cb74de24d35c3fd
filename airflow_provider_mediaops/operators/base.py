"""Base class of the operators: a task that can be stopped and deferred, and says what it has read and written."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from airflow_provider_mediaops.task_failure import constructing, given_arguments, is_templated
from airflow_provider_mediaops.task_stop import StoppableTask
from airflow_provider_mediaops.version_compat import AirflowTaskTimeout, TaskDeferralTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from airflow_provider_mediaops.lineage.task_lineage import TaskLineage


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
        # Of a class without one, Airflow wraps its own, and then takes None for the inlets of a mapped task from there.
        super().__init__(**kwargs)

    def _check_known(self, given: Mapping[str, Any]) -> None:
        """Check the arguments at the end of the constructor, which was given Airflow's own, too."""
        with constructing(self, given):
            self._check(given_arguments(self), is_templated)

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
        from airflow_provider_mediaops.lineage.task_lineage import note_in_events

        self._outcome = outcome
        if self.outlets:
            note_in_events(context, self.outlets, self._lineage(outcome), self.log.warning)

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any] | None:
        """Return the inputs and outputs of a task that starts, for OpenLineage."""
        return self._openlineage(has_outputs=True)

    def get_openlineage_facets_on_complete(self, task_instance: object) -> OperatorLineage[Any, Any] | None:
        """Return the inputs and outputs of a task that has ended; one that was skipped has no outputs."""
        return self._openlineage(has_outputs=self._outcome is not None)

    def get_openlineage_facets_on_failure(self, task_instance: object) -> OperatorLineage[Any, Any] | None:
        """Return the inputs of a task that failed. It has outputs only if they were published."""
        return self.get_openlineage_facets_on_complete(task_instance)

    def _openlineage(self, *, has_outputs: bool) -> OperatorLineage[Any, Any] | None:
        from dataclasses import replace

        from airflow_provider_mediaops.lineage.task_lineage import TaskLineage, operator_lineage

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
        from airflow_provider_mediaops.storage.path_checks import warn_if_deferred_to_local
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
