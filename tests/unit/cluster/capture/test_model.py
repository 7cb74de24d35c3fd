"""A capture: in which order it is taken, what is kept of it, and what it says is missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.api import CLUSTER_RULES
from airflow_provider_mediaops.cluster.capture.destination import FORMATS, CaptureDestination, capture_paths
from airflow_provider_mediaops.cluster.capture.model import Capture, take_capture
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    ConnectionFailedError,
    NotFoundError,
    ReplyTimeoutError,
)
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Failure, Response, TransportError
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.call_flows import START, replay, requests_of
from tests.unit.search_cluster import error, node_id, replied, report, stats

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from airflow_provider_mediaops.http.exchange import Step

FORBIDDEN = replied(error(403, "security_exception", "no permissions for [cluster:monitor/nodes/stats]"), 403)


def capture(
    *replies: Response | TransportError, query: HotThreadsQuery | None = None, steps: list[Step] | None = None
) -> Capture:
    """Take a capture of a cluster that answers this."""
    client = Client(("https://cluster.example",), CLUSTER_RULES, retry=RetryPolicy(max_attempts=1))
    return replay(take_capture(client.ask, query or HotThreadsQuery()), replies, steps=steps)


class TestTaking:
    def test_the_cpu_is_read_right_before_the_threads(self) -> None:
        steps: list[Step] = []
        taken = capture(
            replied(stats({"node-1": 95})),
            replied(report("node-1")),
            query=HotThreadsQuery("node-1", threads=9999),
            steps=steps,
        )
        assert [(request.path, request.params) for request in requests_of(steps)] == [
            ("/_nodes/node-1/stats/os,process", ()),
            ("/_nodes/node-1/hot_threads", (("threads", "9999"),)),
        ]
        assert taken.text == report("node-1")
        assert taken.warnings() == []

    @pytest.mark.parametrize(
        "reply", [FORBIDDEN, replied("<html>", 502), replied("{}"), TransportError(Failure.TIMEOUT, "no reply")]
    )
    def test_the_threads_are_captured_even_if_the_cpu_is_not_told(self, reply: Response | TransportError) -> None:
        taken = capture(reply, replied(report("node-1")))
        assert taken.summary()["cpu"] is None
        assert [node["node"] for node in taken.summary()["nodes"]] == ["node-1"]
        assert taken.warnings()[0].startswith("The capture is without the nodes' CPU: ")

    @pytest.mark.parametrize(
        ("reply", "cls"),
        [
            (replied("Unauthorized", 401), AuthenticationError),
            (TransportError(Failure.NOT_SENT, "refused"), ConnectionFailedError),
        ],
    )
    def test_a_cluster_that_lets_nobody_in_is_not_asked_twice(
        self, reply: Response | TransportError, cls: type[Exception]
    ) -> None:
        with pytest.raises(cls):
            capture(reply)

    def test_nodes_that_do_not_exist_never_will(self) -> None:
        with pytest.raises(NotFoundError, match="'node-9'"):
            capture(replied(stats({})), replied(""), query=HotThreadsQuery("node-9"))

    @pytest.mark.parametrize("text", ["", report("node-2")])
    def test_a_report_without_the_nodes_is_none_yet(self, text: str) -> None:
        with pytest.raises(ReplyTimeoutError, match=r"\(node-1\).*timeout=600ms") as caught:
            capture(replied(stats({"node-1": 95})), replied(text), query=HotThreadsQuery("node-1", timeout="600ms"))
        assert caught.value.path == "/_nodes/node-1/hot_threads"

    @pytest.mark.parametrize("selectors", ["node-1,node-9", "node-1.example", "10.0.0.1", "_local", "node-*", "zone:a"])
    def test_capture_of_some_of_the_nodes_is_one(self, selectors: str) -> None:
        for told in (replied(stats({"node-1": 95, "node-9": 95})), FORBIDDEN):
            assert capture(told, replied(report("node-1")), query=HotThreadsQuery(selectors)).text == report("node-1")


class TestSummary:
    def test_summary_is_small_and_plain(self) -> None:
        text = report("node-1", share=97.5) + report("node-2", share=12.5)
        summary = capture(replied(stats({"node-1": 95, "node-2": None})), replied(text)).summary()
        assert summary == {
            "bytes": len(text),
            "nodes": [{"node": "node-1", "threads": 1}, {"node": "node-2", "threads": 1}],
            "cpu": [
                {"node": "node-1", "percent": 95.0, "source": "os"},
                {"node": "node-2", "percent": None, "source": None},
            ],
            "hottest": [
                {"node": "node-1", "percent": 97.5, "thread": "opensearch[node-1][search][T#1]"},
                {"node": "node-2", "percent": 12.5, "thread": "opensearch[node-2][search][T#1]"},
            ],
            "kinds": [
                {
                    "kind": "search.other",
                    "label": "Search: which kind is not visible",
                    "share_percent": 100.0,
                    "threads": 2,
                    "nodes": 2,
                    "caution": "by its thread pool only",
                }
            ],
            "missing": [],
            "unparsed": 0,
            "left_out": {},
        }
        assert json.loads(json.dumps(summary)) == summary

    def test_only_the_hottest_threads_are_in_it(self) -> None:
        shares = [3.0, 50.0, 394.6, 7.0, 0.0, 80.0, 9.0]
        taken = Capture("".join(report(f"node-{place}", share=share) for place, share in enumerate(shares)))
        assert [thread["percent"] for thread in taken.summary()["hottest"]] == [394.6, 80.0, 50.0, 9.0, 7.0]

    def test_summary_stays_small_however_many_nodes_there_are(self) -> None:
        names = [f"node-{number}." for number in range(300)]
        cpu: dict[str, float | None] = dict.fromkeys(names, 90)
        text = report(*names[:200])
        summary = capture(replied(stats({**cpu, names[299]: 99, names[0]: None})), replied(text)).summary()
        assert summary["left_out"] == {"nodes": 150, "cpu": 250, "missing": 50}
        assert [len(summary[name]) for name in summary["left_out"]] == [50, 50, 50]
        assert summary["cpu"][0] == {"node": "node-299.", "percent": 99.0, "source": "os"}
        assert len(json.dumps(summary)) < 10_000

    def test_names_are_text_that_any_database_takes(self) -> None:
        text = report("node-1").replace("[search]", "[sear\udcffch" + "x" * 500)
        (hottest,) = Capture(text).summary()["hottest"]
        assert hottest["thread"].startswith("opensearch[node-1][sear\ufffdch")
        assert len(hottest["thread"]) == 200
        summary = capture(replied(json.dumps(stats({"n\ud800\0": 5}))), replied(report("node-1"))).summary()
        assert summary["cpu"] == [{"node": "n\ufffd\ufffd", "percent": 5.0, "source": "os"}]
        assert summary["missing"] == ["n\ufffd\ufffd"]

    def test_the_size_is_that_of_what_was_sent(self) -> None:
        assert Capture("::: {Knötchen\udcff}\n").summary()["bytes"] == len("::: {Knötchen}\n".encode()) + 1


class TestMissing:
    @pytest.mark.parametrize(
        ("selectors", "missing"),
        [
            (None, ["node-2"]),
            (("node-1", "node-2"), ["node-2"]),
            (("node-1", "node-2", "node-9"), ["node-2", "node-9"]),
            (("node-*", "_local", "rack:r1"), ["node-2"]),
        ],
    )
    def test_with_statistics_every_node_without_a_section_is_known(
        self, selectors: Sequence[str] | None, missing: list[str]
    ) -> None:
        taken = capture(
            replied(stats({"node-1": 5, "node-2": 95})),
            replied(report("node-1")),
            query=HotThreadsQuery(selectors),
        )
        assert taken.missing == taken.summary()["missing"] == missing
        assert f"Not in the report: {', '.join(missing)}." in taken.warnings()[0]

    @pytest.mark.parametrize(
        ("selectors", "missing"),
        [
            (None, []),
            (("node-1", node_id("node-1"), "node-1.example", "10.0.0.1", "10.0.0.1:9300"), []),
            (("node-1", "node-2"), ["node-2"]),
            (("node-?", "_local", "rack:r1"), []),
        ],
    )
    def test_without_statistics_those_that_were_named_are(
        self, selectors: tuple[str, ...] | None, missing: list[str]
    ) -> None:
        assert Capture(report("node-1"), selectors).missing == missing

    def test_capture_tells_of_errors_on_the_way(self) -> None:
        taken = capture(
            replied(stats({"node-1": 5}, failures=("Failed node [abc]",))),
            replied(report("node-1") + "   what is this?\n"),
        )
        first, second = taken.warnings()
        assert first == "1 node did not give the statistics: Failed node [abc]."
        assert second.startswith("Parts of the report were not understood (1)")
        assert "line 9" in second


class TestFiles:
    def test_the_text_is_what_was_sent_and_json_the_report_of_it(self, data: Path) -> None:
        body = (data / "hot_threads" / "opensearch-2.19.1-cpu.txt").read_bytes()
        taken = Capture(body.decode("utf-8", "surrogateescape"))
        assert taken.content("txt") == body
        written = json.loads(taken.content("json"))
        assert written.pop("capture") == {"taken": None, "reason": None, "cause": "", "nodes_asked": None}
        assert [kind["kind"] for kind in written.pop("kinds")][:2] == ["agg.terms", "search.other"]
        shown = [thread.pop("kinds") for node in written["nodes"] for thread in node["threads"]]
        assert {kinds[0]["kind"] for kinds in shown} == {"agg.terms", "search.script", "search.other"}
        assert written == taken.report.to_dict()

    def test_bytes_that_are_no_text_survive(self) -> None:
        taken = Capture("::: {node\udcff}\n")
        assert taken.content("txt") == b"::: {node\xff}\n"
        assert json.loads(taken.content("json"))["nodes"]

    @pytest.mark.parametrize(
        ("destination", "formats", "paths"),
        [
            ("/out/r.txt", ("txt", "json"), {"txt": "/out/r.txt", "json": "/out/r.json"}),
            ("/out/r", ("txt", "json"), {"txt": "/out/r.txt", "json": "/out/r.json"}),
            ("/out/r.json", ["json"], {"json": "/out/r.json"}),
            ("/out/r.html", ["html", "txt"], {"txt": "/out/r.txt", "html": "/out/r.html"}),
            ("/out/r.folded", ["folded"], {"folded": "/out/r.folded"}),
            ("/out/r.txt", "folded,kinds", {"folded": "/out/r.folded", "kinds": "/out/r.kinds"}),
            ("s3://c@b.example/2026.03/r.v1", ["txt"], {"txt": "s3://c@b.example/2026.03/r.v1.txt"}),
        ],
    )
    def test_each_format_has_its_own_suffix(
        self, destination: str, formats: Sequence[str], paths: dict[str, str]
    ) -> None:
        assert capture_paths(destination, formats) == paths

    def test_those_of_several_captures_are_numbered_but_for_the_page(self) -> None:
        assert capture_paths("/out/r.txt", FORMATS, 3) == {
            "txt": "/out/r.3.txt",
            "json": "/out/r.3.json",
            "folded": "/out/r.3.folded",
            "kinds": "/out/r.3.kinds",
            "html": "/out/r.html",
        }

    def test_the_page_is_no_content_of_one(self) -> None:
        with pytest.raises(ValueError, match=r"^format is txt, json, folded or kinds"):
            Capture(report("node-1")).content("html")

    @pytest.mark.parametrize("text", ["", "hello\nworld\n", "::: {n}{id}\n", report("node-1", "node-2") + "what?\n"])
    def test_json_is_written_as_by_one_call(self, text: str) -> None:
        taken = Capture(text, ("node-1",), None, (), START, "CPU ≥ 85 %", "spike")
        written = json.loads(taken.content("json"))
        assert taken.content("json").decode() == json.dumps(written, indent=1)
        assert list(written) == ["capture", "kinds", "nodes", "unparsed"]
        assert written["capture"] == {
            "taken": START.isoformat(timespec="milliseconds"),
            "reason": "spike",
            "cause": "CPU ≥ 85 %",
            "nodes_asked": ["node-1"],
        }

    @pytest.mark.parametrize(
        ("destination", "formats", "word"),
        [
            ("", ["txt"], "destination"),
            ("/out/", ["txt"], "destination"),
            ("/out/.txt", ["txt"], "destination"),
            ("/out/r.txt", [], "formats"),
            ("/out/r.txt", ["svg"], "formats"),
            ("/out/r.txt", ["txt", "txt"], "formats"),
            ("/out/r.txt", "txt,", "formats"),
        ],
    )
    def test_destination_that_names_no_file_is_refused(self, destination: str, formats: Any, word: str) -> None:
        with pytest.raises(ValueError, match=f"^{word} "):
            CaptureDestination(destination, formats)
