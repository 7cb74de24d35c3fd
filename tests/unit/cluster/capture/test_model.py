"""A capture: how it is taken, with the tasks of its nodes too, what it says is missing, and its files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.capture.model import Capture, take_capture
from airflow_provider_mediaops.cluster.capture.plan import capture_paths
from airflow_provider_mediaops.cluster.capture.reading import read_head, taken_of
from airflow_provider_mediaops.cluster.capture.summary import summary_of
from airflow_provider_mediaops.cluster.errors import CLUSTER_RULES
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.cluster.running_tasks.model import RunningTasks
from airflow_provider_mediaops.cluster.running_tasks.sampling import TaskSampler
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidConnectionError,
    ReplyTimeoutError,
    ServiceUnavailableError,
)
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import (
    Beside,
    Blocking,
    Failure,
    Response,
    Returned,
    TransportError,
    advance,
)
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.unit.call_flows import START, FakeClock, replay, requests_of
from tests.unit.cluster.digest.captured_days import MONDAY, SEARCH, hot, text_at
from tests.unit.cluster.task_values import TASKS, hostile_tasks
from tests.unit.hot_threads_text import cpu, hostile, section, stack, thread, unique
from tests.unit.search_cluster import error, node_id, replied, report, stats
from tests.unit.task_replies import BULK, listed, pools, shards, task_list

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import CallFlow, Step

FORBIDDEN = replied(error(403, "security_exception", "no permissions for [cluster:monitor/nodes/stats]"), 403)
READING, REPORT = replied(stats({"node-1": 95})), replied(report("node-1"))
POOLS, SHARDS = replied(pools()), replied(shards(orders=5))
LIST = replied(task_list(listed(1, 0, action=BULK, opaque_id="logstash")))


def taking(query: HotThreadsQuery | None = None, *, running_tasks: bool = False) -> CallFlow[Capture]:
    """Begin to take a capture."""
    client = Client(("https://cluster.example",), CLUSTER_RULES, retry=RetryPolicy(max_attempts=1))
    sampler = TaskSampler(client.ask, FakeClock().clock) if running_tasks else None
    return take_capture(client.ask, query or HotThreadsQuery(interval="20ms", snapshots=1), sampler=sampler)


def capture(
    *replies: Response | TransportError,
    query: HotThreadsQuery | None = None,
    running_tasks: bool = False,
    steps: list[Step] | None = None,
) -> Capture:
    """Take a capture of a cluster that answers this; the looks at tasks come before the report."""
    return replay(taking(query, running_tasks=running_tasks), replies, steps=steps)


class TestTaking:
    def test_the_cpu_is_read_right_before_the_threads(self) -> None:
        steps: list[Step] = []
        taken = capture(READING, REPORT, query=HotThreadsQuery("node-1", threads=9999), steps=steps)
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
        taken = capture(reply, REPORT)
        assert summary_of(taken)["cpu"] is None
        assert [node["node"] for node in summary_of(taken)["nodes"]] == ["node-1"]
        assert taken.warnings()[0].startswith("The capture is without the nodes' CPU: ")

    @pytest.mark.parametrize(
        ("reply", "cls"),
        [
            (replied("Unauthorized", 401), AuthenticationError),
            (TransportError(Failure.NOT_SENT, "refused"), ConnectionFailedError),
            (TransportError(Failure.PROXY, "407"), InvalidConnectionError),
        ],
    )
    def test_a_cluster_that_lets_nobody_in_is_not_asked_twice(
        self, reply: Response | TransportError, cls: type[Exception]
    ) -> None:
        with pytest.raises(cls):
            capture(reply)

    @pytest.mark.parametrize("text", ["", report("node-2")])
    def test_a_report_without_the_nodes_is_none_yet(self, text: str) -> None:
        with pytest.raises(ReplyTimeoutError, match=r"\(node-1\).*timeout=600ms") as caught:
            capture(READING, replied(text), query=HotThreadsQuery("node-1", timeout="600ms"))
        assert caught.value.path == "/_nodes/node-1/hot_threads"

    @pytest.mark.parametrize("selectors", ["node-1,node-9", "node-1.example", "10.0.0.1", "_local", "node-*", "zone:a"])
    def test_capture_of_some_of_the_nodes_is_one(self, selectors: str) -> None:
        for told in (replied(stats({"node-1": 95, "node-9": 95})), FORBIDDEN):
            assert capture(told, REPORT, query=HotThreadsQuery(selectors)).text == report("node-1")


class TestRunningTasks:
    def test_an_error_of_the_report_stays_one(self) -> None:
        down = replied(error(503, "master_not_discovered_exception", "no master"), 503)
        with pytest.raises(ServiceUnavailableError):
            capture(READING, POOLS, LIST, SHARDS, LIST, SHARDS, LIST, down, running_tasks=True)

    def test_a_defect_beside_the_report_costs_no_more_than_ten_milliseconds(self) -> None:
        flow = taking(running_tasks=True)
        next(flow)
        beside = flow.send(READING)
        assert isinstance(beside, Beside)
        assert beside.grace_seconds == 0.01
        # What a driver sends if the call flow beside has raised.
        step = advance(flow, (report("node-1"), KeyError("secret")))
        while isinstance(step, Blocking):
            step = advance(flow, step.action())
        assert isinstance(step, Returned)
        sentence = "The tasks were not listed to the end, because of a fault (KeyError)."
        assert step.value.warnings() == [sentence]


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
        reading = replied(stats({"node-1": 5, "node-2": 95}))
        taken = capture(reading, REPORT, query=HotThreadsQuery(selectors))
        assert taken.missing == summary_of(taken)["missing"] == missing
        assert f"Not in the report: {' and '.join(missing)}." in taken.warnings()[0]

    @pytest.mark.parametrize(
        ("selectors", "missing"),
        [
            (None, []),
            (("node-1", node_id("node-1"), "node-1.example", "10.0.0.1", "10.0.0.1:9300"), []),
            (("node-1", "node-2"), ["node-2"]),
            (("node-*", "_local", "rack:r1"), []),
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
        taken = Capture(body.decode("utf-8", "surrogateescape"), ("node-1",), None, (), START, "CPU ≥ 85 %", "spike")
        assert taken.content("txt") == body
        written = json.loads(taken.content("json"))
        assert list(written) == ["capture", "kinds", "nodes", "unparsed"]
        assert written.pop("capture") == {
            "taken": START.isoformat(timespec="milliseconds"),
            "reason": "spike",
            "cause": "CPU ≥ 85 %",
            "nodes_asked": ["node-1"],
        }
        assert [kind["kind"] for kind in written.pop("kinds")][:2] == ["agg.terms", "search.other"]
        shown = [thread.pop("kinds") for node in written["nodes"] for thread in node["threads"]]
        assert {kinds[0]["kind"] for kinds in shown} == {"agg.terms", "search.script", "search.other"}
        assert written == taken.report.to_dict()

    @pytest.mark.parametrize(
        ("destination", "formats", "paths"),
        [
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

    def test_json_has_the_kinds_of_work_of_the_whole_and_of_each_thread(self) -> None:
        script = "org.opensearch.painless.PainlessScript$Script.execute(doc['a'].value:7)"
        merge = "org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run(ConcurrentMergeScheduler.java:1)"
        threads = (thread("[search]", cpu(60.0), stack(10, script)), thread("[merge]", cpu(20.0), unique(merge)))
        written = json.loads(Capture(section("n1", *threads)).content("json"))
        shares = [(kind["kind"], kind["share_percent"]) for kind in written["kinds"]]
        assert shares == [("search.script", 75.0), ("merge.segments", 25.0)]
        [first], [second] = [each["kinds"] for each in written["nodes"][0]["threads"]]
        assert first == {
            "kind": "search.script",
            "label": "Script run for each document",
            "share_percent": 100.0,
            "snapshots": 10,
            "told_by": "frame",
            "frame": "org.opensearch.painless.PainlessScript$Script.execute",
        }
        assert (second["kind"], second["snapshots"]) == ("merge.segments", 1)


TEXT = text_at(MONDAY, hot("n", "search", 50, SEARCH))


def written(text: str, **circumstances: Any) -> str:
    return Capture(text, **circumstances).content("json").decode("ascii")


AFTER_TASKS = ',\n "kinds": ['
FULL = written(hostile(), running_tasks=TASKS)


def test_first_characters_of_a_json_file_say_when_and_why() -> None:
    head = read_head(written(TEXT, taken=MONDAY, cause="CPU", reason="time_limit")[:300])
    assert (taken_of(head), head["capture"]["reason"]) == (MONDAY, "time_limit")


@pytest.mark.parametrize("tasks", [TASKS, hostile_tasks(100), RunningTasks()])
def test_tasks_are_read_from_what_a_capture_writes(tasks: RunningTasks) -> None:
    content = written(hostile(), running_tasks=tasks)
    head = read_head(content)
    assert head["running_tasks"] == tasks.to_dict() == json.loads(content)["running_tasks"]
    # What follows is not needed.
    assert read_head(content[: content.index(AFTER_TASKS)])["running_tasks"] == tasks.to_dict()


def test_the_words_in_another_place_are_not_taken_for_them() -> None:
    text = ' "running_tasks": {"nodes": [{"node": "forged"}]}'
    for content in (
        written(f"::: {{{text}}}", cause=f"because\n{text}"),
        '{\n "capture": {\n  "running_tasks": {"nodes": [{"node": "another"}]}\n },\n "nodes": []\n}',
        '{"capture": {}, "nodes": [{"attributes": {"a": "b", "running_tasks": {"nodes": []}}}]}',
    ):
        assert "running_tasks" not in read_head(content)


@pytest.mark.parametrize("content", [FULL[: FULL.index(AFTER_TASKS) - 1], '{"running_tasks": ' + "[" * 100_000])
def test_tasks_that_do_not_end_are_none(content: str) -> None:
    assert read_head(content)["running_tasks"] is None


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "{}", '{"nodes": []}', '{"capture"', '{"capture": 5, "nodes": []}', "\ufffd\ufffd{\x00"),
        '{"capture": {"taken": "soon", "reason": 3}}',
    ],
)
def test_anything_else_is_a_head_that_says_nothing(content: str) -> None:
    assert taken_of(read_head(content)) is None


def test_report_that_nobody_captured_was_taken_when_its_nodes_say() -> None:
    assert taken_of(read_head(written(TEXT))) == datetime(2026, 11, 16, tzinfo=timezone.utc)
