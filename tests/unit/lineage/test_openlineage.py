"""What OpenLineage gets, with Airflow's OpenLineage provider and without it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from airflow_provider_mediaops.asset_uris import convert_asset_to_openlineage, create_video_asset
from airflow_provider_mediaops.lineage.openlineage import operator_lineage
from airflow_provider_mediaops.lineage.task_lineage import LineageDataset, TaskLineage

if TYPE_CHECKING:
    import pytest

LINEAGE = TaskLineage(
    inputs=(LineageDataset("mediaops-video://videos/subscriptions/mine"),),
    outputs=(
        LineageDataset("s3://bucket/subs.csv", {"id": "string", "count": "int64"}, 120, 4096),
        LineageDataset("file:///log.txt"),
    ),
)


def test_inputs_and_outputs_have_the_names_of_openlineage() -> None:
    lineage = operator_lineage(LINEAGE)
    assert lineage is not None
    assert [(each.namespace, each.name) for each in lineage.inputs] == [
        ("mediaops-video://videos", "subscriptions/mine")
    ]
    assert [(each.namespace, each.name) for each in lineage.outputs] == [
        ("s3://bucket", "subs.csv"),
        ("file", "/log.txt"),
    ]


def test_an_output_has_its_schema_and_its_size() -> None:
    lineage = operator_lineage(LINEAGE)
    assert lineage is not None
    dataset, log = lineage.outputs
    assert [(field.name, field.type) for field in dataset.facets["schema"].fields] == [
        ("id", "string"),
        ("count", "int64"),
    ]
    statistics = dataset.outputFacets["outputStatistics"]
    assert (statistics.rowCount, statistics.size) == (120, 4096)
    assert (log.facets, log.outputFacets) == ({}, {})


def test_an_asset_has_the_name_that_the_operators_give() -> None:
    from airflow.providers.common.compat.openlineage.utils.utils import translate_airflow_asset

    asset = create_video_asset(conn_id="videos")
    dataset = convert_asset_to_openlineage(asset, None)
    lineage = operator_lineage(LINEAGE)
    assert lineage is not None
    assert (dataset.namespace, dataset.name) == (lineage.inputs[0].namespace, lineage.inputs[0].name)
    # Airflow finds the converter by the scheme.
    found = translate_airflow_asset(asset, None)
    assert found is not None
    assert (found.namespace, found.name) == (dataset.namespace, dataset.name)


def test_without_the_provider_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("openlineage", "airflow.providers.openlineage", "airflow.providers.openlineage.extractors"):
        monkeypatch.setitem(sys.modules, module, None)
    assert operator_lineage(LINEAGE) is None
