"""What operators read and write, the events of its assets, what OpenLineage gets; and paths as others see them."""

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
from airflow_provider_mediaops.lineage import (
    LineageDataset,
    TaskLineage,
    bulletin_lineage,
    capture_lineage,
    enrichment_lineage,
    export_lineage,
    note_in_events,
    operator_lineage,
    uri_of,
    without_userinfo,
)

if TYPE_CHECKING:
    from tests.unit.conftest import Supervisor

MINE = {"mine": True, "part": ("id", "snippet")}
SNIPPETS = Path(__file__).parents[2] / "docs" / "snippets"


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


REPORTED = TaskLineage(inputs=(LineageDataset("mediaops-video://videos/subscriptions/mine"),))


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

    @pytest.mark.parametrize(
        ("arguments", "columns"),
        [
            ({}, 22),
            ({"source": ["/list.txt"]}, 22),
            ({"source": ["/list.csv"], "keep": "false"}, 22),
            ({"source": ["/list.csv"], "columns": {}}, 22),
            # Nobody has read the list yet.
            ({"source": ["/list.csv"]}, None),
        ],
    )
    def test_table_without_columns_of_its_list_has_its_own(
        self, arguments: dict[str, Any], columns: int | None
    ) -> None:
        (written,) = self.lineage(**arguments).outputs
        assert (written.columns and len(written.columns)) == columns

    def test_the_columns_of_the_list_come_last(self) -> None:
        (written,) = self.lineage(source=["/list.csv"], columns={"price": "float", "shelf": "str"}).outputs
        assert list(written.columns.items())[-2:] == [("source_price", "double"), ("source_shelf", "string")]
        assert (written.columns["pages"], written.columns["msrp"]) == ("int64", "double")

    @pytest.mark.parametrize("destination", ["/books.jsonl", "/books.csv"])
    def test_rows_of_several_books_have_the_number_of_their_input(self, destination: str) -> None:
        (written,) = self.lineage(destination, source=["/list.txt"], numbered=True).outputs
        assert next(iter(written.columns.items())) == ("input_row", "int64")

    def test_json_lines_hold_objects(self) -> None:
        (written,) = self.lineage("/books.jsonl", source=["/list.csv"]).outputs
        assert list(written.columns.items())[-2:] == [("book", "object"), ("source", "object")]
        (written,) = self.lineage("/books.jsonl", source=["/list.txt"]).outputs
        assert list(written.columns) == ["input", "isbn13", "status", "error", "note", "fetched_at", "reused", "book"]

    def test_earlier_datasets_are_read_but_not_the_destination_itself(self) -> None:
        lineage = self.lineage("/books.jsonl", source=["s3://k:s@b/list.csv"], reuse=["/books.jsonl", "/old.csv"])
        assert uris(lineage.inputs) == ["s3://b/list.csv", "mediaops-books://isbn/books", "file:///old.csv"]

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
    def test_beforehand_the_files_that_are_asked_for_are_written(self) -> None:
        lineage = capture_lineage("search", "/r/hot.txt", "txt,json", None)
        assert set(uris(lineage.outputs)) == {"file:///r/hot.txt", "file:///r/hot.json"}
        assert lineage.facts == {}

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

    @pytest.mark.parametrize(
        ("more", "facts"),
        [
            ({}, {"nodes": 1, "missing": 0, "captures": 1, "failures": 0, "complete": True}),
            ({"unparsed": 1}, {"complete": False}),
            ({"hottest": []}, {"hottest": None}),
            ({"paths": {"html": "/r/hot.html"}}, {"path": "/r/hot.html"}),
            # What the lists leave out is counted.
            (
                {"missing": ["a"], "left_out": {"nodes": 150, "missing": 2, "later_captures": 7}, "failure_count": 4},
                {"nodes": 151, "missing": 3, "captures": 8, "failures": 4, "complete": False},
            ),
        ],
    )
    def test_the_event_of_a_capture_has_paths_and_counts(self, more: dict[str, Any], facts: dict[str, Any]) -> None:
        found = capture_lineage("search", "/r/hot.txt", "txt", {**shown("capture_result.json"), **more}).facts
        assert {name: found[name] for name in facts} == facts


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


def test_facts_are_added_to_the_entries_of_the_extra(events: Events) -> None:
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


@pytest.mark.parametrize(
    ("path", "without"),
    [
        ("s3://conn@bucket/a.csv", "s3://bucket/a.csv"),
        ("s3://key:secret@bucket/a.csv", "s3://bucket/a.csv"),
        ("s3://key:se@cret@bucket/a.csv", "s3://bucket/a.csv"),
        ("s3://bucket/a@b.csv", "s3://bucket/a@b.csv"),
        ("s3://@bucket/a.csv", "s3://bucket/a.csv"),
        ("memory://a.csv", "memory://a.csv"),
        ("file:///home/a@b/c.csv", "file:///home/a@b/c.csv"),
        ("/home/a@b/c.csv", "/home/a@b/c.csv"),
        ("/data/s3://key@bucket.csv", "/data/s3://key@bucket.csv"),
    ],
)
def test_user_information_is_what_stands_before_the_bucket(path: str, without: str) -> None:
    assert without_userinfo(path) == without


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/data/a.csv", "file:///data/a.csv"),
        ("file:///data/a.csv", "file:///data/a.csv"),
        ("file:/data/a.csv", "file:///data/a.csv"),
        ("local:///data/a.csv", "file:///data/a.csv"),
        ("/data/100% of #1?.csv", "file:///data/100%25 of %231%3F.csv"),
        ("S3://conn@Bucket/a.csv", "s3://Bucket/a.csv"),
        ("s3://bucket/a#1.csv", "s3://bucket/a%231.csv"),
        ("memory://contract/a.csv", "memory://contract/a.csv"),
        ("https://user:pw@host/a%20b.csv?X-Amz-Signature=secret#part", "https://host/a%20b.csv"),
    ],
)
def test_a_path_has_the_uri_that_people_write_for_its_asset(path: str, uri: str) -> None:
    assert uri_of(path) == uri
    # Airflow changes nothing in it.
    assert Asset(uri=uri).uri == uri


def test_the_uri_of_a_local_file_is_absolute() -> None:
    assert uri_of("a.csv") == f"file://{Path.cwd()}/a.csv"
    assert uri_of("~/a.csv") == f"file://{Path.home()}/a.csv"
    assert uri_of("~nobody-of-that-name/a.csv") == "file://~nobody-of-that-name/a.csv"
