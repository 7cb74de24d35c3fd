"""Say what a task has read and written: in the events of its outlets, and to OpenLineage."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from airflow_provider_mediaops.lineage.trace import Trace
    from airflow_provider_mediaops.storage.source_columns import ColumnType


class TracedTask:
    """
    Base of the operators, before Airflow's own: what the task reads and writes is known to Airflow.

    All of it follows from the rendered arguments and from what this attempt has done, and nothing from an XCom, which
    may be missing, and which users can edit.
    """

    # Of BaseOperator.
    outlets: Any
    log: Any

    # The result of this attempt, once it has one.
    _outcome: Mapping[str, Any] | None = None
    # The columns that a dataset takes from its source, with their types, once this attempt knows them.
    _columns: Mapping[str, ColumnType] | None = None

    @abstractmethod
    def _trace(self, outcome: Mapping[str, Any] | None) -> Trace:
        """
        Return what the task reads and writes.

        :param outcome: the task's result; None before it is done.
        :raises ValueError: for rendered arguments that cannot be used.
        """
        ...

    def _note_in_events(self, context: Context, outcome: Mapping[str, Any]) -> None:
        """Remember the result, and say in the events of the outlets what was written."""
        from airflow_provider_mediaops.lineage.outlet_events import note_in_events

        self._outcome = outcome
        if self.outlets:
            note_in_events(context, self.outlets, self._trace(outcome), self.log.warning)

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any] | None:
        """Return for OpenLineage what the task is going to read and write."""
        return self._openlineage(self._known_trace())

    def get_openlineage_facets_on_complete(self, task_instance: object) -> OperatorLineage[Any, Any] | None:
        """
        Return for OpenLineage what the task has read and written.

        :param task_instance: Airflow's; not used.
        :returns: also how many rows and bytes; nothing is written by a task that was skipped.
        """
        from dataclasses import replace

        trace = self._known_trace()
        return self._openlineage(trace if self._outcome is not None else replace(trace, writes=()))

    def get_openlineage_facets_on_failure(self, task_instance: object) -> OperatorLineage[Any, Any] | None:
        """
        Return for OpenLineage what a failed task has read; a dataset appears whole or not at all.

        :param task_instance: Airflow's; not used.
        """
        return self.get_openlineage_facets_on_complete(task_instance)

    def _known_trace(self) -> Trace:
        from airflow_provider_mediaops.lineage.trace import Trace

        try:
            return self._trace(self._outcome)
        except ValueError:
            # The task itself refuses these arguments, with a message.
            return Trace()

    def _openlineage(self, trace: Trace) -> OperatorLineage[Any, Any] | None:
        from airflow_provider_mediaops.lineage.openlineage import operator_lineage

        return operator_lineage(trace)
