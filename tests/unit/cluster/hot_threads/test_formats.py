"""The form of each version: headers, threads and stacks in short texts, and reports that real servers wrote."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.hot_threads.grammar import BLANKS
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.unit.cluster.hot_threads.short_texts import SAMPLING, only_node, values

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThread, HotThreadsReport

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


def test_elasticsearch_1_with_the_values_that_json_has_of_a_thread() -> None:
    node = only_node(ELASTICSEARCH_1)

    assert node.timestamp == datetime(2015, 3, 2, 8, 15, 30, 120_000, tzinfo=timezone.utc)
    assert (node.interval_seconds, node.busiest_threads, node.ignore_idle_threads) == (0.5, 2, True)
    (thread,) = node.to_dict()["threads"]
    first, second = thread.pop("groups")
    assert thread == {
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
    }
    frames = ["example.index.Writer.add(Writer.java:31)", "java.lang.Thread.run(Thread.java:745)"]
    assert first == {"snapshots": 6, "total": 10, "elements": 2, "frames": frames}
    assert second == {"snapshots": 4, "total": 10, "elements": 1, "frames": frames[1:]}


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
        # No more than is read of JSON.
        (f"{'9' * 20}% (1s out of 1s) cpu usage", ("cpu", None, None, None, None, 1.0, 1.0, None)),
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
    ("printed", "size"),
    [
        *(("400b", 400), ("11.4kb", 11674), ("1.2mb", 1258291), ("3gb", 3221225472), ("0b", 0)),
        (f"{'9' * 20}pb", None),
    ],
)
def test_memory_allocated(printed: str, size: int | None) -> None:
    thread = only_thread(f"   {printed} memory allocated by thread 'x'")
    assert (thread.kind, thread.memory, thread.memory_bytes, thread.amount) == ("mem", printed, size, size)
    assert (thread.percent, thread.time) == (None, None)


@pytest.mark.parametrize(
    ("name", "node_name", "pool"),
    [
        ("elasticsearch[n1][search][T#3]", "n1", "search"),
        ("elasticsearch[other][search][T#3]", "other", "search"),
        ("elasticsearch[n1][[timer]]", "n1", "timer"),
        ("elasticsearch[n1][[a]-b]", "n1", "[a]-b"),
        ("elasticsearch[n1][[http_worker.default]][T#13]{New I/O worker #30}", "n1", "http_worker.default"),
        ("elasticsearch[n1][[idx-2020.05.07][3]: Lucene Merge Thread #1115]", "n1", "Lucene Merge Thread"),
        ("elasticsearch[n1][search][T#11][[idx][0]][taskId=AbC:52]", "n1", "search"),
        ("elasticsearch[readiness-service]", None, "readiness-service"),
        ("elasticsearch[search][T#1]", None, "search"),
        ("[write]", None, "write"),
        ("Attach Listener", None, None),
        ("pool[1][x]", None, None),
        ("elasticsearch]n1[[search]", None, None),
        ("elasticsearch[n1", None, None),
        ("elasticsearch[other]-[search]", None, "other"),
        ("elasticsearch[n1][search", "n1", None),
        ("it's 'quoted'", None, None),
        ("", None, None),
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
        "a.B.<init>(B.java)",
        "app//a.B.m(B.java:1)",
        "java.base@17.0.4/java.lang.Thread.run(Thread.java:833)",
        "a.X$$Lambda$5664/0x00000008018c9718.get(Unknown Source)",
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


def test_report_as_json() -> None:
    text = ELASTICSEARCH_9.replace("394.6%", "NaN%") + "what is this?\n"
    told = json.loads(json.dumps(parse(text).to_dict(), allow_nan=False))
    assert told["nodes"][0]["threads"][0]["percent"] is None
    assert told["nodes"][0]["attributes"] == {"zone": "a"}
    assert told["unparsed"] == [{"line": 13, "text": "what is this?", "reason": "not a line of a hot-threads report"}]


ID = "qT7xH2b0Qm6UdXo5cVnK1w"
ADDRESS = "10.0.0.1:9300"
NAMED = {"name": "n1", "node_id": ID}
WHOLE = {**NAMED, "ephemeral_id": "Z3cR9pLkTgyW4vHs8uNeJA", "host": "es1", "address": ADDRESS}

#: What the slots in braces hold, in their order; one without a name is empty.
IN_BRACES: dict[str, dict[str, Any]] = {
    "Elasticsearch 2": NAMED | {"host": "10.0.0.1", "address": ADDRESS, "attributes": {"max_local": "1"}},
    "Elasticsearch 2, name missing": {"node_id": ID, "host": "10.0.0.1", "address": ADDRESS},
    "Elasticsearch 5 to 7": WHOLE | {"address": "[fe80::1]:9300", "attributes": {"a": "x, y}{z", "b": "2=3"}},
    "Elasticsearch 7 with roles, no attributes": WHOLE | {"roles": "cdhilmrstw"},
    "Elasticsearch 9, no external id, no roles": WHOLE | {"version": "9.2.1", "index_versions": "8000099-9033000"},
    "Elasticsearch 9": {
        **NAMED,
        "ephemeral_id": WHOLE["ephemeral_id"],
        "external_id": "ext-1",
        "host": "es9",
        "address": ADDRESS,
        "roles": "hs",
        "version": "9.1.0",
        "index_versions": "8000-9033",
        "attributes": {"zone": "a"},
    },
    "a name with braces, commas and an equals sign": WHOLE | {"name": "a}{b=c, {d", "roles": "dimr"},
    "a name of the length of an id": NAMED | {"name": "elasticsearch-master-0", "host": "::1", "address": ADDRESS},
    "no ephemeral id, and an address of the port alone": NAMED | {"": "", "address": ":9300"},
    "no ephemeral id beside a host": NAMED | {"": "", "host": "es2", "address": ":9300", "attributes": {"a": "b"}},
    "an empty host": NAMED | {"ephemeral_id": WHOLE["ephemeral_id"], "": "", "address": ":9300"},
    "cut by hand to name and id": NAMED,
    "cut by hand to name, id and attributes": NAMED | {"attributes": {"a": "b"}},
    "no name": {name: value for name, value in WHOLE.items() if name != "name"},
}
HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Elasticsearch 1, host missing": (f"[n1][{ID}][inet[/{ADDRESS}]]", NAMED | {"address": ADDRESS}),
    "Elasticsearch 1, name missing": (
        f"[{ID}][es1][inet[es1.example/{ADDRESS}]]",
        {"node_id": ID, "host": "es1", "address": ADDRESS},
    ),
    "Elasticsearch 1, host only in the address": (
        f"[n1][{ID}][inet[es1.example/{ADDRESS}]]{{data=true,master=false}}",
        NAMED | {"host": "es1.example", "address": ADDRESS, "attributes": {"data": "true", "master": "false"}},
    ),
    "Elasticsearch 1, brackets in the name": (
        f"[a][b][{ID}][es1][inet[/{ADDRESS}]]",
        {"name": "a][b", "node_id": ID, "host": "es1", "address": ADDRESS},
    ),
    "Elasticsearch 1, cut by hand to the name": ("[n1]", {"name": "n1"}),
    "a hosted service that hides addresses": (
        f"{{0f3a}}{{{ID}}}{{{WHOLE['ephemeral_id']}}}{{x.x.x.x}}{{x.x.x.x:9300}}{{mr}}{{zone=us-east-1b, }}",
        WHOLE
        | {"name": "0f3a", "host": "x.x.x.x", "address": "x.x.x.x:9300"}
        | {"roles": "mr", "attributes": {"zone": "us-east-1b"}},
    ),
}


def in_braces(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return a header, and what it says."""
    slots = [
        ", ".join("=".join(pair) for pair in value.items()) if name == "attributes" else value
        for name, value in values.items()
    ]
    return "".join(f"{{{slot}}}" for slot in slots), {name: value for name, value in values.items() if name}


HEADERS |= {name: in_braces(values) for name, values in IN_BRACES.items()}


@pytest.mark.parametrize(("header", "expected"), HEADERS.values(), ids=HEADERS.keys())
@pytest.mark.parametrize("mark", ["::: ", ":::", " ::: ", "# ::: "])
def test_header(mark: str, header: str, expected: dict[str, Any]) -> None:
    assert values(only_node(f"{mark}{header}\n{SAMPLING}\n")) == {
        "header": header,
        **expected,
        "timestamp_text": "2022-04-01T15:15:27.658Z",
        "interval": "500ms",
        "interval_seconds": 0.5,
        "busiest_threads": 3,
        "ignore_idle_threads": True,
    }


def test_header_without_a_line_on_the_sampling_as_before_elasticsearch_1_5() -> None:
    node = only_node("::: [n1][id1][es1][inet[/10.0.0.1:9300]]\n\n")
    assert (node.name, node.timestamp_text, node.threads) == ("n1", None, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2019-04-28T07:43:58.123456789Z", datetime(2019, 4, 28, 7, 43, 58, 123456, tzinfo=timezone.utc)),
        ("2019-04-28T07:43:58Z", datetime(2019, 4, 28, 7, 43, 58, tzinfo=timezone.utc)),
        ("2019-04-28T07:43Z", datetime(2019, 4, 28, 7, 43, tzinfo=timezone.utc)),
    ],
)
def test_timestamp(text: str, expected: datetime) -> None:
    node = only_node(f"   Hot threads at {text}, interval=500ms:\n")
    assert (node.timestamp_text, node.timestamp) == (text, expected)


@pytest.mark.parametrize("text", ["2019-13-28T07:43:58Z", "yesterday"])
def test_timestamp_that_is_none(text: str) -> None:
    report = parse(f"   Hot threads at {text}, interval=500ms:\n")
    assert (report.nodes[0].timestamp_text, report.nodes[0].timestamp) == (text, None)
    assert [found.reason for found in report.unparsed] == ["a 'Hot threads at' line with a time of unknown form"]


def test_a_report_was_taken_when_its_first_node_was_sampled() -> None:
    times = ("22:10:05Z", "22:10:03Z", "yesterday")
    nodes = [f"::: [n{number}]\n   Hot threads at 2022-04-01T{time}:\n" for number, time in enumerate(times)]
    assert parse("".join(nodes)).taken == datetime(2022, 4, 1, 22, 10, 3, tzinfo=timezone.utc)
    assert parse(nodes[-1]).taken is None


# By the start of the file's name: threads by node, groups, frames, and the lines that something is wrong with.
SHARED = {
    "002-": ([3, 3], 6, 38, []),
    "005-": ([2], 3, 69, []),
    "007-": ([1], 3, 140, []),
    "011-": ([1], 1, 2, []),
    "013-": ([0, 1, 1], 2, 11, []),
    "015-": ([1], 10, 0, []),
    "017-": ([0], 0, 0, []),
    "018-": ([2], 3, 21, [29]),
    "022-": ([1], 1, 9, []),
    "023-": ([1], 2, 3, [5, 8, 9, 11]),
    "026-": ([1], 1, 9, []),
    "028-": ([1], 1, 1, [4]),
}
RECORDED = Path(__file__).parents[3] / "data" / "hot_threads"


def read(path: Path) -> tuple[str, HotThreadsReport]:
    text = path.read_bytes().decode()
    report = parse(text)
    assert report.render() == text
    return text, report


def counts(report: HotThreadsReport) -> tuple[list[int], int, int, list[int]]:
    groups = [group for node in report.nodes for thread in node.threads for group in thread.groups]
    return (
        [len(node.threads) for node in report.nodes],
        len(groups),
        sum(len(group.frames) for group in groups),
        [found.line for found in report.unparsed],
    )


def test_all_shared_reports(shared_data: Path) -> None:
    paths = sorted((shared_data / "hot_threads").glob("*.txt"))
    assert {path.name: counts(read(path)[1]) for path in paths} == {path.name: SHARED[path.name[:4]] for path in paths}
    assert len(paths) == len(SHARED)


@pytest.mark.parametrize("path", sorted(RECORDED.glob("opensearch-*.txt")), ids=lambda path: path.stem)
def test_report_of_the_test_cluster(path: Path) -> None:
    text, report = read(path)
    lines = text.splitlines()
    threads, groups, frames, unparsed = counts(report)

    assert unparsed == []
    assert [node.header for node in report.nodes] == [line[4:] for line in lines if line.startswith("::: ")]
    assert sum(threads) == sum(" usage by thread '" in line for line in lines)
    assert groups == sum(line.endswith((" elements", "unique snapshot")) for line in lines)
    assert frames == sum(line.startswith(" " * 7) for line in lines)
    for node in report.nodes:
        assert node.ephemeral_id
        assert node.host == "127.0.0.1"
        assert node.attributes == {"shard_indexing_pressure_enabled": "true"}
        assert {thread.node_name for thread in node.threads} <= {node.name}
        assert all(thread.pool and thread.kind == path.stem.split("-")[2] for thread in node.threads)
