"""Translate the lineage of a task into the classes of Airflow's OpenLineage provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.asset_uris import openlineage_name

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.generated.base import InputDataset, OutputDataset

    from airflow_provider_mediaops.lineage.task_lineage import LineageDataset, TaskLineage


def operator_lineage(lineage: TaskLineage) -> OperatorLineage[Any, Any] | None:
    """Return the lineage of a task in the classes of OpenLineage; None without its provider."""
    try:
        from airflow.providers.openlineage.extractors import OperatorLineage
    except ImportError:
        return None
    return OperatorLineage(
        inputs=[_input(dataset) for dataset in lineage.inputs], outputs=list(map(_output, lineage.outputs))
    )


def _input(described: LineageDataset) -> InputDataset:
    from openlineage.client.generated.base import InputDataset

    namespace, name = openlineage_name(described.uri)
    return InputDataset(namespace=namespace, name=name)


def _output(described: LineageDataset) -> OutputDataset:
    from openlineage.client.generated.base import OutputDataset
    from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
    from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields

    namespace, name = openlineage_name(described.uri)
    dataset = OutputDataset(namespace=namespace, name=name)
    if described.columns is not None:
        fields = [SchemaDatasetFacetFields(name=column, type=kind) for column, kind in described.columns.items()]
        dataset.facets = {"schema": SchemaDatasetFacet(fields=fields)}
    if described.rows is not None or described.bytes is not None:
        statistics = OutputStatisticsOutputDatasetFacet(rowCount=described.rows, size=described.bytes)
        dataset.outputFacets = {"outputStatistics": statistics}
    return dataset
