"""Put what a task has written into the events of its outlets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow.sdk import Context

    from airflow_provider_mediaops.lineage.task_lineage import TaskLineage


def note_in_events(context: Context, outlets: Iterable[Any], lineage: TaskLineage, warn: Callable[..., None]) -> None:
    """
    Put the facts of a task into the events of its outlets.

    The event of an asset, or of a reference to one, gets them in its ``extra``. An alias gets an event of the asset
    that the task has written, so that its URI may depend on a template. What else is in the extra stays.

    A failure is logged: what the task has written is there already.
    """
    from airflow.sdk import Asset, AssetAlias
    from airflow.sdk.definitions.asset import AssetRef
    from airflow.sdk.exceptions import AirflowRuntimeError

    for outlet in outlets:
        try:
            if isinstance(outlet, AssetAlias):
                for written in lineage.outputs[:1]:
                    context["outlet_events"][outlet].add(Asset(uri=written.uri), extra=dict(lineage.facts))
            elif isinstance(outlet, (Asset, AssetRef)):
                context["outlet_events"][outlet].extra.update(lineage.facts)
        except (AirflowRuntimeError, TypeError, ValueError) as error:
            warn("The event of the outlet %s says nothing about what was written: %s", _name_of(outlet), error)


def _name_of(outlet: object) -> str:
    return str(getattr(outlet, "name", None) or getattr(outlet, "uri", outlet))
