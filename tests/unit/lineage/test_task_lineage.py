"""What each operator reads and writes, what the events of its assets say of it, and what OpenLineage gets."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import ErrorType
from airflow.sdk.execution_time.comms import AssetResult, ErrorResponse, GetAssetByName
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_mediaops.asset_uris import convert_asset_to_openlineage, create_video_asset
from airflow_provider_mediaops.lineage.task_lineage import (
    LineageDataset,
    TaskLineage,
    bulletin_lineage,
    capture_lineage,
    enrichment_lineage,
    export_lineage,
    note_in_events,
    operator_lineage,
)

if TYPE_CHECKING:
    from tests.unit.conftest import Supervisor

MINE = {"mine": True, "part": ("id", "snippet")}
SNIPPETS = Path(__file__).parents[3] / "docs" / "snippets"


def shown(name: str) -> Any:
    """Return a result as the documentation shows it."""
    return json.loads((SNIPPETS / name).read_text(encoding="utf-8"))


def uris(datasets: tuple[LineageDataset, ...]) -> list[str]:
    return [dataset.uri for dataset in datasets]


FACTS = {"path": "/data/books.csv", "rows": 3}
LINEAGE = TaskLineage(
    outputs=(LineageDataset("file:///data/books.csv"), LineageDataset("file:///data/other.csv")), facts=FACTS
)


class Events:
    """The events of a task, and the warnings in its log."""

    def __init__(self) -> None:
        self.accessors = OutletEventAccessors()
        self.warnings: list[str] = []

    def note(self, *outlets: Any, lineage: TaskLineage = LINEAGE) -> None:
        context = cast("Any", {"outlet_events": self.accessors})
        note_in_events(context, outlets, lineage, lambda text, *values: self.warnings.append(text % values))


@pytest.fixture
def events() -> Events:
    return Events()


REPORTED = TaskLineage(
    inputs=(LineageDataset("mediaops-video://videos/subscriptions/mine"),),
    outputs=(
        LineageDataset("s3://bucket/subs.csv", {"id": "string", "count": "int64"}, 120, 4096),
        LineageDataset("file:///log.txt"),
    ),
)


class TestExport:
    @pytest.mark.parametrize(
        ("query", "uri"),
        [
            ({"mine": "true"}, "mediaops-video://videos/subscriptions/mine"),
            ({"channel_id": "UC-1"}, "mediaops-video://videos/subscriptions/channels/UC-1"),
            ({"ids": "a,b"}, "mediaops-video://videos/subscriptions"),
        ],
    )
    def test_export_reads_the_subscriptions_that_are_asked_for(self, query: dict[str, Any], uri: str) -> None:
        lineage = export_lineage("videos", "/data/subs.csv", None, query, None)
        assert uris(lineage.inputs) == [uri]
        assert lineage.facts == {}

    def test_afterwards_also_how_much(self) -> None:
        facts = {"rows": 3, "bytes": 99, "pages": 3, "complete": False, "changed": False}
        summary = {"path": "s3://conn@bucket/subs.jsonl", **facts, "restarts": 0, "resumed": True}
        lineage = export_lineage("videos", "subs.jsonl", None, MINE, summary)
        fields = {"kind": "string", "etag": "string", "id": "string", "snippet": "object"}
        assert lineage.outputs == (LineageDataset("s3://bucket/subs.jsonl", fields, 3, 99),)
        assert lineage.facts == {"path": "s3://bucket/subs.jsonl", **facts}

    @pytest.mark.parametrize(("destination", "format"), [("/subs.csv", None), ("/subs.out", "parquet")])
    def test_a_table_has_its_columns(self, destination: str, format: str | None) -> None:
        (written,) = export_lineage("videos", destination, format, MINE, None).outputs
        assert written.columns is not None
        assert list(written.columns)[:3] == ["id", "title", "channel_id"]
        assert (written.columns["total_item_count"], written.columns["record"]) == ("int64", "string")


class TestEnrichment:
    def lineage(self, destination: str = "/data/books.csv", **more: Any) -> Any:
        arguments: dict[str, Any] = {"source": (), "keep": True, "columns": None, "summary": None, **more}
        return enrichment_lineage("isbn", destination, None, **arguments)

    def test_enrichment_reads_the_list_and_the_books(self) -> None:
        assert uris(self.lineage().inputs) == ["mediaops-books://isbn/books"]
        lineage = self.lineage(source=["s3://key:secret@bucket/list.csv"])
        assert uris(lineage.inputs) == ["s3://bucket/list.csv", "mediaops-books://isbn/books"]

    def test_the_columns_of_the_list_come_last(self) -> None:
        (written,) = self.lineage(source=["/list.csv"], columns={"price": "float", "shelf": "str"}).outputs
        assert list(written.columns.items())[-2:] == [("source_price", "double"), ("source_shelf", "string")]
        assert (written.columns["pages"], written.columns["msrp"]) == ("int64", "double")

    @pytest.mark.parametrize(
        "arguments",
        [
            {},
            {"source": ["/list.txt"]},
            {"source": ["/list.csv"], "keep": "false"},
            {"source": ["/list.csv"], "columns": {}},
        ],
    )
    def test_a_table_without_them_has_its_own(self, arguments: dict[str, Any]) -> None:
        (written,) = self.lineage(**arguments).outputs
        assert (len(written.columns), list(written.columns)[-1]) == (22, "reused")

    @pytest.mark.parametrize("destination", ["/books.jsonl", "/books.csv"])
    def test_rows_of_several_books_have_the_number_of_their_input(self, destination: str) -> None:
        (written,) = self.lineage(destination, source=["/list.txt"], numbered=True).outputs
        assert next(iter(written.columns.items())) == ("input_row", "int64")

    def test_a_table_whose_list_nobody_has_read_yet_has_no_known_columns(self) -> None:
        (written,) = self.lineage(source=["/list.csv"]).outputs
        assert written.columns is None

    def test_json_lines_hold_objects(self) -> None:
        (written,) = self.lineage("/books.jsonl", source=["/list.csv"]).outputs
        assert list(written.columns.items())[-2:] == [("book", "object"), ("source", "object")]
        (written,) = self.lineage("/books.jsonl", source=["/list.txt"]).outputs
        assert list(written.columns) == ["input", "isbn13", "status", "error", "note", "fetched_at", "reused", "book"]

    def test_earlier_datasets_are_read_but_not_the_destination_itself(self) -> None:
        lineage = self.lineage("/books.jsonl", source=["/list.csv"], reuse=["/books.jsonl", "/old.csv"])
        assert [uri.rpartition("/")[2] for uri in uris(lineage.inputs)] == ["list.csv", "books", "old.csv"]

    def test_the_result_says_how_much(self) -> None:
        summary = shown("enrichment_result.json")
        lineage = self.lineage(summary=summary)
        assert (lineage.outputs[0].rows, lineage.outputs[0].bytes) == (summary["rows"], summary["bytes"])
        of_the_attempt = {"resumed", "rows_per_second"}
        facts = {name: value for name, value in summary.items() if name not in of_the_attempt}
        assert lineage.facts == {**facts, "complete": True}
        for name in ("failed", "not_asked"):
            assert self.lineage(summary={**summary, name: 1}).facts["complete"] is False


class TestCapture:
    def test_before_it_is_taken_the_files_of_one_are_known(self) -> None:
        lineage = capture_lineage("search", "s3://conn@bucket/hot.txt", "txt,html", None)
        assert uris(lineage.inputs) == ["mediaops-cluster://search/hot_threads"]
        assert uris(lineage.outputs) == ["s3://bucket/hot.txt", "s3://bucket/hot.html"]

    def test_afterwards_those_of_all_with_one_page(self) -> None:
        first, *later = [
            {"paths": {"txt": f"/r/hot.{number}.txt", "html": "/r/hot.html"}, "bytes": number} for number in (1, 2)
        ]
        lineage = capture_lineage("search", "/r/hot.txt", "txt,html", {**first, "later_captures": later})
        assert lineage.outputs == (
            LineageDataset("file:///r/hot.1.txt", bytes=1),
            LineageDataset("file:///r/hot.html"),
            LineageDataset("file:///r/hot.2.txt", bytes=2),
        )
        assert (lineage.facts["path"], lineage.facts["captures"]) == ("/r/hot.1.txt", 2)

    def facts(self, **more: Any) -> Any:
        return capture_lineage("search", "/r/hot.txt", "txt", {**shown("capture_result.json"), **more}).facts

    def test_the_event_of_a_capture_has_paths_and_counts(self) -> None:
        path = "s3://reports/2026-11-22/hot_threads"
        assert self.facts() == {
            "path": f"{path}.txt",
            "paths": {suffix: f"{path}.{suffix}" for suffix in ("txt", "json", "folded", "html")},
            "taken": "2026-11-22T09:31:05.371+00:00",
            "bytes": 5603,
            "timed_out": False,
            "nodes": 1,
            "missing": 0,
            "captures": 1,
            "failures": 0,
            "complete": True,
            "hottest": {"node": "sandbox-2", "percent": 97.0, "thread": "opensearch[sandbox-2][search][T#5]"},
        }
        without = self.facts(paths={"html": "/r/hot.html"}, hottest=[], unparsed=1)
        assert (without["path"], without["hottest"], without["complete"]) == ("/r/hot.html", None, False)

    def test_what_the_lists_of_a_capture_leave_out_is_counted(self) -> None:
        left_out = {"nodes": 150, "missing": 2, "later_captures": 7}
        facts = self.facts(missing=["a"], left_out=left_out, failure_count=4)
        assert [facts[name] for name in ("nodes", "missing", "captures", "failures")] == [151, 3, 8, 4]
        assert facts["complete"] is False


def test_a_bulletin_is_written_to_the_platform() -> None:
    assert bulletin_lineage("videos", None).outputs == (LineageDataset("mediaops-video://videos/bulletins"),)
    assert bulletin_lineage("videos", {"id": "act-1", "snippet": {}}).facts == {"id": "act-1"}


def test_the_changes_of_an_export_are_an_output_of_their_own() -> None:
    def outputs(summary: dict[str, Any] | None) -> list[tuple[str, int | None]]:
        arguments = ("video", "s3://conn@b/subs.csv", None, {"mine": True}, summary)
        lineage = export_lineage(*arguments, changes="s3://conn@b/changes.jsonl")
        return [(output.uri, output.rows) for output in lineage.outputs]

    counts = {"added": 1, "removed": 2, "changed_records": 3}
    assert outputs(None) == [("s3://b/subs.csv", None), ("s3://b/changes.jsonl", None)]
    assert outputs({"rows": 9, "bytes": 1, "changes": "s3://conn@b/changes.jsonl", **counts}) == [
        ("s3://b/subs.csv", 9),
        ("s3://b/changes.jsonl", 6),
    ]
    # Neither file was written.
    assert outputs({"rows": 9, "bytes": 1, "changes": None, **counts}) == [("s3://b/subs.csv", 9)]


def test_the_event_of_an_asset_has_the_facts(events: Events) -> None:
    asset, other = Asset("books"), Asset("other")
    events.note(asset)
    assert events.accessors[asset].extra == FACTS
    assert events.accessors[other].extra == {}


def test_other_entries_of_the_extra_stay(events: Events) -> None:
    asset = Asset("books")
    events.accessors[asset].extra["approved_by"] = "someone"
    events.note(asset)
    assert events.accessors[asset].extra == {"approved_by": "someone", **FACTS}


def test_a_reference_leads_to_its_asset(
    events: Events, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(msg: Any) -> AssetResult:
        assert isinstance(msg, GetAssetByName)
        return AssetResult(name=msg.name, uri="s3://bucket/books.csv", group="asset", extra={})

    monkeypatch.setattr(supervisor, "send", send)
    events.note(Asset.ref(name="referred"))
    assert events.accessors[Asset("referred", "s3://bucket/books.csv")].extra == FACTS


def test_an_outlet_that_cannot_be_described_fails_nothing(
    events: Events, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ErrorResponse(error=ErrorType.ASSET_NOT_FOUND, detail={"name": "gone"})
    monkeypatch.setattr(supervisor, "send", lambda _: gone)
    asset, long = Asset("books"), TaskLineage(outputs=(LineageDataset(f"file:///{'x' * 1500}"),), facts=FACTS)
    events.note(Asset.ref(name="gone"), AssetAlias("long"), asset, lineage=long)
    assert events.accessors[asset].extra == FACTS
    assert [warning.partition(" says nothing")[0] for warning in events.warnings] == [
        "The event of the outlet gone",
        "The event of the outlet long",
    ]


def test_inputs_and_outputs_have_the_names_of_openlineage() -> None:
    lineage = operator_lineage(REPORTED)
    assert lineage is not None
    assert [(each.namespace, each.name) for each in lineage.inputs] == [
        ("mediaops-video://videos", "subscriptions/mine")
    ]
    assert [(each.namespace, each.name) for each in lineage.outputs] == [
        ("s3://bucket", "subs.csv"),
        ("file", "/log.txt"),
    ]


def test_an_output_has_its_schema_and_its_size() -> None:
    lineage = operator_lineage(REPORTED)
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
    lineage = operator_lineage(REPORTED)
    assert lineage is not None
    assert (dataset.namespace, dataset.name) == (lineage.inputs[0].namespace, lineage.inputs[0].name)
    # Airflow finds the converter by the scheme.
    found = translate_airflow_asset(asset, None)
    assert found is not None
    assert (found.namespace, found.name) == (dataset.namespace, dataset.name)


def test_without_the_provider_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("openlineage", "airflow.providers.openlineage", "airflow.providers.openlineage.extractors"):
        monkeypatch.setitem(sys.modules, module, None)
    assert operator_lineage(REPORTED) is None
