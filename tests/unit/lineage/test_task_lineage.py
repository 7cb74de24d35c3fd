"""What each operator reads and writes, by its arguments and its result, and what the event of an asset says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.lineage.task_lineage import (
    LineageDataset,
    bulletin_lineage,
    capture_lineage,
    enrichment_lineage,
    export_lineage,
)

MINE = {"mine": True, "part": ("id", "snippet")}
SNIPPETS = Path(__file__).parents[3] / "docs" / "snippets"


def shown(name: str) -> Any:
    """Return a result as the documentation shows it."""
    return json.loads((SNIPPETS / name).read_text(encoding="utf-8"))


def uris(datasets: tuple[LineageDataset, ...]) -> list[str]:
    return [dataset.uri for dataset in datasets]


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
