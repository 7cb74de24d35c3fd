"""What each operator reads and writes, by its arguments and its result."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.lineage.trace import (
    Place,
    bulletin_trace,
    capture_trace,
    enrichment_trace,
    export_trace,
)

MINE = {"mine": True, "part": ("id", "snippet")}


def uris(places: tuple[Place, ...]) -> list[str]:
    return [place.uri for place in places]


class TestExport:
    @pytest.mark.parametrize(
        ("query", "uri"),
        [
            ({"mine": "true"}, "mediaops-video://videos/subscriptions/mine"),
            ({"channel_id": "UC-1"}, "mediaops-video://videos/subscriptions/channels/UC-1"),
            ({"ids": "a,b"}, "mediaops-video://videos/subscriptions"),
        ],
    )
    def test_it_reads_the_subscriptions_that_are_asked_for(self, query: dict[str, Any], uri: str) -> None:
        trace = export_trace("videos", "/data/subs.csv", None, query, None)
        assert uris(trace.reads) == [uri]
        assert trace.facts == {}

    def test_before_it_is_done_it_is_known_where_it_writes(self) -> None:
        (written,) = export_trace("videos", "s3://conn@bucket/subs.csv", None, MINE, None).writes
        assert (written.uri, written.rows, written.bytes) == ("s3://bucket/subs.csv", None, None)

    def test_afterwards_also_how_much(self) -> None:
        summary = {"path": "/data/subs.jsonl", "rows": 3, "bytes": 99, "complete": True}
        trace = export_trace("videos", "subs.jsonl", None, MINE, summary)
        fields = {"kind": "string", "etag": "string", "id": "string", "snippet": "object"}
        assert trace.writes == (Place("file:///data/subs.jsonl", fields, 3, 99),)
        assert trace.facts == {"path": "/data/subs.jsonl", "rows": 3, "bytes": 99, "complete": True}

    @pytest.mark.parametrize(("destination", "format"), [("/subs.csv", None), ("/subs.out", "parquet")])
    def test_a_table_has_its_columns(self, destination: str, format: str | None) -> None:
        (written,) = export_trace("videos", destination, format, MINE, None).writes
        assert written.columns is not None
        assert list(written.columns)[:3] == ["id", "title", "channel_id"]
        assert (written.columns["total_item_count"], written.columns["record"]) == ("int64", "string")

    def test_arguments_that_the_task_refuses_are_refused(self) -> None:
        with pytest.raises(InvalidArgumentError, match="Give exactly one"):
            export_trace("videos", "/subs.csv", None, {"mine": True, "channel_id": "UC-1"}, None)
        with pytest.raises(InvalidArgumentError, match="ends in none of"):
            export_trace("videos", "/subs", None, MINE, None)


class TestEnrichment:
    def trace(self, destination: str = "/data/books.csv", **more: Any) -> Any:
        arguments: dict[str, Any] = {"source": None, "keep": True, "columns": None, "summary": None, **more}
        return enrichment_trace("isbn", destination, None, **arguments)

    def test_it_reads_the_list_and_the_books(self) -> None:
        assert uris(self.trace().reads) == ["mediaops-books://isbn/books"]
        trace = self.trace(source="s3://key:secret@bucket/list.csv")
        assert uris(trace.reads) == ["s3://bucket/list.csv", "mediaops-books://isbn/books"]

    def test_the_columns_of_the_list_come_last(self) -> None:
        (written,) = self.trace(source="/list.csv", columns={"price": "float", "shelf": "str"}).writes
        assert list(written.columns.items())[-2:] == [("source_price", "double"), ("source_shelf", "string")]
        assert (written.columns["pages"], written.columns["msrp"]) == ("int64", "double")

    @pytest.mark.parametrize(
        "arguments",
        [{}, {"source": "/list.txt"}, {"source": "/list.csv", "keep": "false"}, {"source": "/list.csv", "columns": {}}],
    )
    def test_a_table_without_them_has_its_own(self, arguments: dict[str, Any]) -> None:
        (written,) = self.trace(**arguments).writes
        assert (len(written.columns), list(written.columns)[-1]) == (19, "record")

    def test_a_table_whose_list_nobody_has_read_yet_has_no_known_columns(self) -> None:
        (written,) = self.trace(source="/list.csv").writes
        assert written.columns is None

    def test_json_lines_hold_objects(self) -> None:
        (written,) = self.trace("/books.jsonl", source="/list.csv").writes
        assert list(written.columns.items())[-2:] == [("book", "object"), ("source", "object")]
        (written,) = self.trace("/books.jsonl", source="/list.txt").writes
        assert list(written.columns) == ["input", "isbn13", "status", "error", "book"]

    def test_the_result_says_how_much(self) -> None:
        trace = self.trace(summary={"path": "/data/books.csv", "rows": 5, "bytes": 7, "failed": 0})
        assert (trace.writes[0].rows, trace.writes[0].bytes, trace.facts["complete"]) == (5, 7, True)


class TestCapture:
    def test_before_it_is_taken_the_files_of_one_are_known(self) -> None:
        trace = capture_trace("search", "s3://conn@bucket/hot.txt", "txt,html", None)
        assert uris(trace.reads) == ["mediaops-cluster://search/hot_threads"]
        assert uris(trace.writes) == ["s3://bucket/hot.txt", "s3://bucket/hot.html"]

    def test_afterwards_those_of_all_with_one_page(self) -> None:
        captures = [
            {"paths": {"txt": f"/r/hot.{number}.txt", "html": "/r/hot.html"}, "bytes": number} for number in (1, 2)
        ]
        trace = capture_trace("search", "/r/hot.txt", "txt,html", {**captures[0], "captures": captures})
        assert trace.writes == (
            Place("file:///r/hot.1.txt", bytes=1),
            Place("file:///r/hot.html"),
            Place("file:///r/hot.2.txt", bytes=2),
        )
        assert (trace.facts["path"], trace.facts["captures"]) == ("/r/hot.1.txt", 2)


def test_a_bulletin_is_written_to_the_platform() -> None:
    assert bulletin_trace("videos", None).writes == (Place("mediaops-video://videos/bulletins"),)
    assert bulletin_trace("videos", {"id": "act-1"}).facts == {"id": "act-1"}
