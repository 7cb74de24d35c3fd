"""The form of each version, in short texts written for these tests."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.cluster.hot_threads.grammar import BLANKS
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.unit.cluster.hot_threads.short_texts import SAMPLING, only_node, values

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThread

ELASTICSEARCH_1 = """\
::: [Blue Marvel][qT7xH2b0Qm6UdXo5cVnK1w][search-3.example][inet[/10.0.0.3:9300]]{rack=r1, master=false}
   Hot threads at 2015-03-02T08:15:30.120Z, interval=500ms, busiestThreads=2, ignoreIdleThreads=true:
\x20\x20\x20
   12.5% (62.5ms out of 500ms) cpu usage by thread 'elasticsearch[Blue Marvel][bulk][T#4]'
     6/10 snapshots sharing following 2 elements
       example.index.Writer.add(Writer.java:31)
       java.lang.Thread.run(Thread.java:745)
     4/10 snapshots sharing following 1 elements
       java.lang.Thread.run(Thread.java:745)

"""

ELASTICSEARCH_9 = """\
::: {hot-1}{qT7xH2b0Qm6UdXo5cVnK1w}{Z3cR9pLkTgyW4vHs8uNeJA}{ext-1}{es9}{10.0.0.9:9300}{hs}{9.1.0}{8000-9033}{zone=a}
   Hot threads at 2025-11-11T14:26:27.2Z, interval=1s, busiestThreads=3, ignoreIdleThreads=false:

   394.6% [cpu=94.6%, other=300.0%] (3.9s out of 1s) cpu usage by thread 'elasticsearch[hot-1][write][T#2]'
     unique snapshot
       app/org.elasticsearch.server@9.1.0/example.Engine$$Lambda/0x00007f.run(Unknown Source)
       java.base@24/java.lang.Thread.run(Thread.java:1447)

    0.0% [cpu=0.0%, idle=100.0%] (1s out of 1s) cpu usage by thread 'elasticsearch[hot-1][transport_worker][T#1]'
     10/10 snapshots sharing following 1 elements
       java.base@24/java.lang.Thread.run(Thread.java:1447)

"""


def only_thread(line: str, node_name: str = "n1") -> HotThread:
    (thread,) = only_node(
        f"::: {{{node_name}}}{{qT7xH2b0Qm6UdXo5cVnK1w}}\n{SAMPLING}   \n{line}\n     unique snapshot\n\n"
    ).threads
    return thread


WRITER_GROUPS_1 = [
    {
        "snapshots": 6,
        "total": 10,
        "elements": 2,
        "frames": ["example.index.Writer.add(Writer.java:31)", "java.lang.Thread.run(Thread.java:745)"],
    },
    {"snapshots": 4, "total": 10, "elements": 1, "frames": ["java.lang.Thread.run(Thread.java:745)"]},
]


def test_elasticsearch_1_in_full() -> None:
    node = only_node(ELASTICSEARCH_1)

    assert node.timestamp == datetime(2015, 3, 2, 8, 15, 30, 120_000, tzinfo=timezone.utc)
    assert values(node) == {
        "header": ELASTICSEARCH_1.partition("\n")[0].removeprefix("::: "),
        "name": "Blue Marvel",
        "node_id": "qT7xH2b0Qm6UdXo5cVnK1w",
        "host": "search-3.example",
        "address": "10.0.0.3:9300",
        "attributes": {"rack": "r1", "master": "false"},
        "timestamp_text": "2015-03-02T08:15:30.120Z",
        "interval": "500ms",
        "interval_seconds": 0.5,
        "busiest_threads": 2,
        "ignore_idle_threads": True,
        "threads": [
            {
                "name": "elasticsearch[Blue Marvel][bulk][T#4]",
                "node_name": "Blue Marvel",
                "pool": "bulk",
                "kind": "cpu",
                "percent": 12.5,
                "cpu_percent": 12.5,
                "other_percent": None,
                "idle_percent": None,
                "time": "62.5ms",
                "seconds": 0.0625,
                "out_of": "500ms",
                "out_of_seconds": 0.5,
                "memory": None,
                "memory_bytes": None,
                "groups": WRITER_GROUPS_1,
            }
        ],
    }


def test_elasticsearch_9_with_busy_and_idle_threads() -> None:
    node = only_node(ELASTICSEARCH_9)

    assert (node.interval_seconds, node.busiest_threads, node.ignore_idle_threads) == (1.0, 3, False)
    busy, idle = node.threads
    assert (busy.percent, busy.cpu_percent, busy.other_percent, busy.idle_percent) == (394.6, 94.6, 300.0, None)
    assert (idle.percent, idle.cpu_percent, idle.other_percent, idle.idle_percent) == (0.0, 0.0, None, 100.0)
    (group,) = busy.groups
    assert (group.snapshots, group.total, group.elements) == (1, None, None)
    assert group.frames == (
        "app/org.elasticsearch.server@9.1.0/example.Engine$$Lambda/0x00007f.run(Unknown Source)",
        "java.base@24/java.lang.Thread.run(Thread.java:1447)",
    )


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ("  0.0% (0s out of 500ms) wait usage", ("wait", 0.0, None, None, None, 0.0, 0.5, 0.0)),
        ("  9.0% (45ms out of 500ms) block usage", ("block", 9.0, None, None, None, 0.045, 0.5, 9.0)),
        ("40.0% (4nanos out of 10nanos) cpu usage", ("cpu", 40.0, 40.0, None, None, 4e-9, 1e-8, 40.0)),
        (" 0.1% (455.5micros out of 500ms) cpu usage", ("cpu", 0.1, 0.1, None, None, 0.0004555, 0.5, 0.1)),
        ("-3.2% (-16000000 out of 500ms) cpu usage", ("cpu", -3.2, -3.2, None, None, -0.016, 0.5, -3.2)),
        ("NaN% (0s out of 0s) cpu usage", ("cpu", None, None, None, None, 0.0, 0.0, None)),
        ("Infinity% (1.5h out of 0s) cpu usage", ("cpu", None, None, None, None, 5400.0, 0.0, None)),
        ("120.0% (1.2d out of 1d) cpu usage", ("cpu", 120.0, 120.0, None, None, 103680.0, 86400.0, 120.0)),
        # Other and idle time are shown and never count.
        ("59.6% [cpu=17.9%, other=41.7%] (1s out of 2s) cpu usage", ("cpu", 59.6, 17.9, 41.7, None, 1.0, 2.0, 17.9)),
        ("0.5% [cpu=0.5%, idle=99.5%] (1s out of 2s) cpu usage", ("cpu", 0.5, 0.5, None, 99.5, 1.0, 2.0, 0.5)),
        ("9.0% [cpu=NaN%, other=9.0%] (1s out of 2s) cpu usage", ("cpu", 9.0, None, 9.0, None, 1.0, 2.0, None)),
    ],
)
def test_time_used(usage: str, expected: tuple[object, ...]) -> None:
    thread = only_thread(f"   {usage} by thread 'x'")
    percentages = (thread.percent, thread.cpu_percent, thread.other_percent, thread.idle_percent)
    assert (thread.kind, *percentages, thread.seconds, thread.out_of_seconds, thread.amount) == expected


@pytest.mark.parametrize(
    ("printed", "size"), [("400b", 400), ("11.4kb", 11674), ("1.2mb", 1258291), ("3gb", 3221225472), ("0b", 0)]
)
def test_memory_allocated(printed: str, size: int) -> None:
    thread = only_thread(f"   {printed} memory allocated by thread 'x'")
    assert thread.amount == size
    assert values(thread) == {
        "name": "x",
        "kind": "mem",
        "memory": printed,
        "memory_bytes": size,
        "groups": [{"snapshots": 1, "total": None, "elements": None, "frames": []}],
    }


@pytest.mark.parametrize(
    ("name", "node_name", "pool"),
    [
        ("elasticsearch[n1][search][T#3]", "n1", "search"),
        ("opensearch[n1][search][T#3]", "n1", "search"),
        ("elasticsearch[other][search][T#3]", "other", "search"),
        ("elasticsearch[n1][[timer]]", "n1", "timer"),
        ("elasticsearch[n1][[a]-b]", "n1", "[a]-b"),
        (
            "elasticsearch[n1][[http_server_worker.default]][T#13]{New I/O worker #30}",
            "n1",
            "http_server_worker.default",
        ),
        ("elasticsearch[n1][[idx-2020.05.07][3]: Lucene Merge Thread #1115]", "n1", "Lucene Merge Thread"),
        ("elasticsearch[n1][search][T#11][[idx][0]][taskId=AbC:52]", "n1", "search"),
        ("elasticsearch[n1][masterService#updateTask][T#1]", "n1", "masterService#updateTask"),
        ("elasticsearch[readiness-service]", None, "readiness-service"),
        ("elasticsearch[search][T#1]", None, "search"),
        ("[write]", None, "write"),
        ("Attach Listener", None, None),
        ("ticker-schedule-trigger-engine", None, None),
        ("pool[1][x]", None, None),
        ("elasticsearch]n1[[search]", None, None),
        ("elasticsearch[n1", None, None),
        ("elasticsearch[other]-[search]", None, "other"),
        ("elasticsearch[n1][search", "n1", None),
        ("it's 'quoted'", None, None),
        ("", None, None),
        ("two\nlines", None, None),
    ],
)
def test_thread_name(name: str, node_name: str | None, pool: str | None) -> None:
    thread = only_thread(f"    0.0% (0s out of 500ms) cpu usage by thread '{name}'")
    assert (thread.name, thread.node_name, thread.pool) == (name, node_name, pool)


@pytest.mark.parametrize("node_name", ["Andrew Gervais", "a]b", "a[b", "x][y", "{z}", "it's"])
def test_thread_name_with_an_odd_node_name(node_name: str) -> None:
    line = f"    0.0% (0s out of 500ms) cpu usage by thread 'elasticsearch[{node_name}][write][T#1]'"
    thread = only_thread(line, node_name)
    assert (thread.node_name, thread.pool) == (node_name, "write")


@pytest.mark.parametrize(
    "frame",
    [
        "a.b.C$D.m(F.java:12)",
        "a.B.m(Native Method)",
        "a.B.m(Unknown Source)",
        "a.B.<init>(B.java)",
        "app//a.B.m(B.java:1)",
        "java.base@17.0.4/java.lang.Thread.run(Thread.java:833)",
        "a.X$$Lambda$5664/0x00000008018c9718.get(Unknown Source)",
        "a.X$$Lambda/0x00000008018c9718.run(Unknown Source)",
        "a.PainlessScript$Script.execute(doc['n'].value * (2 + params['k']) @ <inline script>:46)",
        "a.PainlessScript$Script.execute( ...:46)",
    ],
)
def test_frame(frame: str) -> None:
    (node,) = parse(
        "    1.0% (5ms out of 500ms) cpu usage by thread 'x'\n"
        f"     2/10 snapshots sharing following 1 elements\n       {frame}\n"
    ).nodes
    assert node.threads[0].groups[0].frames == (frame,)


def test_node_with_nothing_hot() -> None:
    report = parse(f"::: {{n1}}{{id1}}\n{SAMPLING}\n::: {{n2}}{{id2}}\n{SAMPLING}\n")
    assert [(node.name, node.threads, node.failure) for node in report.nodes] == [("n1", (), None), ("n2", (), None)]
    assert report.unparsed == ()


@pytest.mark.parametrize("before", ["", "~\n"])
def test_node_that_cannot_measure(before: str) -> None:
    failure = "hot_threads is not supported on FreeBSD"
    report = parse(f"::: {{n1}}{{id1}}\n{before}   {failure}\n\n::: {{n2}}{{id2}}\n{SAMPLING}")
    assert [(node.name, node.failure) for node in report.nodes] == [("n1", failure), ("n2", None)]
    assert [found.text for found in report.unparsed] == before.split()


def test_thread_that_died_before_its_stack_was_taken() -> None:
    line = "    0.0% (0s out of 500ms) cpu usage by thread"
    node = only_node(f"::: {{n1}}{{id1}}\n{SAMPLING}\n{line} 'a'\n\n{line} 'b'\n     unique snapshot\n\n")
    assert [(thread.name, len(thread.groups)) for thread in node.threads] == [("a", 0), ("b", 1)]


def test_windows_line_ends_blank_lines_between_all_lines_and_no_final_line_end() -> None:
    text = ELASTICSEARCH_9.replace("\n", "\r\n\r\n").rstrip()
    node, expected = only_node(text), only_node(ELASTICSEARCH_9)
    assert node.to_dict() == expected.to_dict()


@pytest.mark.parametrize("margin", ["# ", "> ", "\ufeff", "\t", "\xa0\u2003"])
def test_text_with_a_margin(margin: str) -> None:
    text = "".join(margin + line for line in ELASTICSEARCH_1.splitlines(keepends=True))
    assert only_node(text).to_dict() == only_node(ELASTICSEARCH_1).to_dict()


def test_blank_is_what_python_takes_for_blank() -> None:
    assert {sign for sign in map(chr, range(sys.maxunicode + 1)) if sign.isspace()} == {*BLANKS, "\n"}


def test_each_part_holds_its_own_lines() -> None:
    first, second = ELASTICSEARCH_1, "::: {n2}{id2}\n" + SAMPLING
    report = parse("\n" + first + second)
    lines = first.splitlines(keepends=True)

    node = report.nodes[0]
    assert report.source == "\n"
    assert node.source == "".join(lines[:3])
    assert node.threads[0].source == lines[3]
    assert [group.source for group in node.threads[0].groups] == ["".join(lines[4:7]), "".join(lines[7:])]
    assert report.nodes[1].source == second


def test_report_as_json() -> None:
    text = ELASTICSEARCH_9.replace("394.6%", "NaN%") + "what is this?\n"
    told = json.loads(json.dumps(parse(text).to_dict(), allow_nan=False))
    assert told["nodes"][0]["threads"][0]["percent"] is None
    assert told["nodes"][0]["attributes"] == {"zone": "a"}
    assert told["unparsed"] == [{"line": 13, "text": "what is this?", "reason": "not a line of a hot-threads report"}]


def test_reports_are_values() -> None:
    report = parse(ELASTICSEARCH_9)
    assert report == parse(ELASTICSEARCH_9)
    assert hash(report) == hash(parse(ELASTICSEARCH_9))
    node = report.nodes[0]
    with pytest.raises(AttributeError):
        node.name = "other"  # type: ignore[misc]
