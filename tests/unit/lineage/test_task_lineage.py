"""What each operator reads and writes, by its arguments and its result."""

from __future__ import annotations

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
        summary = {"path": "/data/subs.jsonl", "rows": 3, "bytes": 99, "complete": True}
        lineage = export_lineage("videos", "subs.jsonl", None, MINE, summary)
        fields = {"kind": "string", "etag": "string", "id": "string", "snippet": "object"}
        assert lineage.outputs == (LineageDataset("file:///data/subs.jsonl", fields, 3, 99),)
        assert lineage.facts == {"path": "/data/subs.jsonl", "rows": 3, "bytes": 99, "complete": True}

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
        lineage = self.lineage(summary={"path": "/data/books.csv", "rows": 5, "bytes": 7, "failed": 0, "not_asked": 0})
        assert (lineage.outputs[0].rows, lineage.outputs[0].bytes, lineage.facts["complete"]) == (5, 7, True)


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
