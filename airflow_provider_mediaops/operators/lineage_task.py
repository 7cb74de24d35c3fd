"""Publish the lineage of a task: in the events of its outlets, and for OpenLineage."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from airflow_provider_mediaops.lineage.task_lineage import TaskLineage
    from airflow_provider_mediaops.storage.source_columns import ColumnType


class LineageTask:
    """
    Base class of the operators, before Airflow's own, for tasks whose inputs and outputs Airflow learns.

    The lineage follows from the rendered arguments and from what this attempt has done. It never follows from an XCom,
    which may be missing, and which users can edit.
    """

    # Of BaseOperator.
    outlets: Any
    log: Any

    # The result of this attempt, once it has one.
    _outcome: Mapping[str, Any] | None = None
    # The columns that a dataset takes from its source, with their types, once this attempt knows them.
    _columns: Mapping[str, ColumnType] | None = None

    @abstractmethod
    def _lineage(self, outcome: Mapping[str, Any] | None) -> TaskLineage:
        """
        Return the lineage of the task.

        :param outcome: the task's result; None before it is done.
        :raises ValueError: for rendered arguments that cannot be used.
        """
        ...

    def _note_in_events(self, context: Context, outcome: Mapping[str, Any]) -> None:
        """Keep the result of this attempt, and put what was written into the events of the outlets."""
        from airflow_provider_mediaops.lineage.outlet_events import note_in_events

        self._outcome = outcome
        if self.outlets:
            note_in_events(context, self.outlets, self._lineage(outcome), self.log.warning)

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any] | None:
        """Return the inputs and outputs of a task that starts, for OpenLineage."""
        return self._openlineage(self._known_lineage())

    def get_openlineage_facets_on_complete(self, task_instance: object) -> OperatorLineage[Any, Any] | None:
        """
        Return the inputs and outputs of a task that has ended, for OpenLineage.

        :param task_instance: Airflow's; not used.
        :returns: the lineage, with the rows and bytes of the outputs; a task that was skipped has no outputs.
        """
        from dataclasses import replace

        lineage = self._known_lineage()
        return self._openlineage(lineage if self._outcome is not None else replace(lineage, outputs=()))

    def get_openlineage_facets_on_failure(self, task_instance: object) -> OperatorLineage[Any, Any] | None:
        """
        Return the inputs of a task that failed, for OpenLineage. It has outputs only if they were published.

        :param task_instance: Airflow's; not used.
        """
        return self.get_openlineage_facets_on_complete(task_instance)

    def _known_lineage(self) -> TaskLineage:
        from airflow_provider_mediaops.lineage.task_lineage import TaskLineage

        try:
            return self._lineage(self._outcome)
        except ValueError:
            # The task itself refuses these arguments, with a message.
            return TaskLineage()

    def _openlineage(self, lineage: TaskLineage) -> OperatorLineage[Any, Any] | None:
        from airflow_provider_mediaops.lineage.openlineage import operator_lineage

        return operator_lineage(lineage)
