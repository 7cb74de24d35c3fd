"""The types of results are those of the results that the guides show; contract tests compare these with real ones."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from typing_extensions import assert_type

from airflow_provider_mediaops.results import (
    CapturePaths,
    CaptureSummary,
    EnrichmentSummary,
    ExportSummary,
    FoundSubscription,
    HotNodeReading,
    HotNodesEvent,
)

SNIPPETS = Path(__file__).parents[2] / "docs" / "snippets"
SHOWN = {
    "capture_result": CaptureSummary,
    "cpu_sensor_result": list[HotNodeReading],
    "enrichment_result": EnrichmentSummary,
    "export_result": ExportSummary,
    "hot_nodes_event": HotNodesEvent,
    "subscription_sensor_result": FoundSubscription,
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_shown_result_has_its_type_and_one_without_a_value_has_not(name: str) -> None:
    shown = json.loads((SNIPPETS / f"{name}.json").read_text(encoding="utf-8"))
    adapter: TypeAdapter[Any] = TypeAdapter(SHOWN[name])

    # Names that the type does not have would be dropped.
    assert adapter.validate_python(shown, strict=True) == shown
    # The first value of a capture is its paths.
    first = shown[0] if isinstance(shown, list) else shown
    del first[next(iter(first))]
    with pytest.raises(ValueError, match="Field required"):
        adapter.validate_python(shown, strict=True)


def check_types(export: ExportSummary, capture: CaptureSummary, event: HotNodesEvent) -> None:
    """mypy checks this function; an ignored error that does not occur is an error, too."""
    assert_type(export["path"], str)
    assert_type(export.get("changed"), bool | None)
    assert_type(capture["paths"], CapturePaths)
    assert_type(capture["later_captures"][0]["hottest"][0]["thread"], str | None)
    assert_type(event["nodes"][0]["percent"], float | None)
    export["pathh"]  # type: ignore[typeddict-item]


def test_type_checkers_of_users_read_the_types() -> None:
    assert files("airflow_provider_mediaops").joinpath("py.typed").is_file()
