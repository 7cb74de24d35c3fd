"""Tell Airflow's OpenLineage provider what a task reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.asset_uris import openlineage_name

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.generated.base import InputDataset, OutputDataset

    from airflow_provider_mediaops.lineage.trace import Place, Trace


def operator_lineage(trace: Trace) -> OperatorLineage[Any, Any] | None:
    """
    Return what a task reads and writes in the classes of OpenLineage.

    :param trace: what it reads and writes.
    :returns: the inputs and outputs, each output with its schema, rows and size as far as they are known; None without
        the OpenLineage provider.
    """
    try:
        from airflow.providers.openlineage.extractors import OperatorLineage
    except ImportError:
        return None
    return OperatorLineage(inputs=[_input(place) for place in trace.reads], outputs=list(map(_output, trace.writes)))


def _input(place: Place) -> InputDataset:
    from airflow.providers.common.compat.openlineage.facet import InputDataset

    namespace, name = openlineage_name(place.uri)
    return InputDataset(namespace=namespace, name=name)


def _output(place: Place) -> OutputDataset:
    from airflow.providers.common.compat.openlineage.facet import (
        OutputDataset,
        OutputStatisticsOutputDatasetFacet,
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
    )

    namespace, name = openlineage_name(place.uri)
    dataset = OutputDataset(namespace=namespace, name=name)
    if place.columns is not None:
        fields = [SchemaDatasetFacetFields(name=column, type=kind) for column, kind in place.columns.items()]
        dataset.facets = {"schema": SchemaDatasetFacet(fields=fields)}
    if place.rows is not None or place.bytes is not None:
        statistics = OutputStatisticsOutputDatasetFacet(rowCount=place.rows, size=place.bytes)
        dataset.outputFacets = {"outputStatistics": statistics}
    return dataset
