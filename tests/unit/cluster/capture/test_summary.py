"""The summaries of captures: what they say, and that an XCom and an event hold them however large the cluster is."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.capture.summary import bounded, hottest_sentence, summary_of
from airflow_provider_mediaops.cluster.models import NodeStats
from airflow_provider_mediaops.cluster.running_tasks.model import NodeTasks, RunningTasks, TaskGroup
from airflow_provider_mediaops.triggers.base import done_event
from tests.unit.hot_threads_text import cpu, section, split, stack, thread, unique
from tests.unit.search_cluster import report, stats

LIMIT = 48_000
SCRIPT = "org.opensearch.painless.PainlessScript$Script.execute(doc['a'].value:7)"
MERGE = "org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run(ConcurrentMergeScheduler.java:1)"


def result_of(series: dict[str, Any]) -> int:
    """Return the bytes of an event of the trigger, whose value has all that the operator returns."""
    return len(json.dumps(done_event({**series, "failure_count": 10**6, "timed_out": False})))


def captured(text: str, cpu: dict[str, float | None], tasks: RunningTasks | None = None) -> Capture:
    return Capture(text, None, NodeStats.read(stats(cpu)), running_tasks=tasks)


@cache
def summary(nodes: int, name: str = "node-{}.", folder: str = "/reports/2026-11-22") -> dict[str, Any]:
    paths = {suffix: f"{folder}/hot.1.{suffix}" for suffix in ("txt", "json", "folded", "html")}
    return {"paths": paths, "taken": "2026-03-14T20:00:00.000+00:00", **summary_of(many_nodes(nodes, name))}


def many_nodes(number: int, name: str) -> Capture:
    names = [name.format(each) for each in range(number)]
    return captured(report(*names), {node: float(each % 100) for each, node in enumerate(names)})


def with_groups(name: str, *, nodes: int = 3) -> Capture:
    """Return a capture of nodes with many groups of tasks, each heavier than the one before."""
    named = [f"{name}{number}" for number in range(nodes)]
    groups = tuple(
        TaskGroup(action=name, opaque_id=f"{place}{name}", index=name, shape=name, running=place, cpu_ms=float(place))
        for place in range(20)
    )
    tasks = RunningTasks(nodes=tuple(NodeTasks(node_id=node, node=node, groups=groups) for node in named))
    return captured(report(*named), dict.fromkeys(named, 95.0), tasks)


def merge_thread(index: str, shard: int) -> str:
    return thread(f"opensearch[n1][[{index}][{shard}]: Lucene Merge Thread #7]", cpu(20.0), unique(MERGE))


class TestOne:
    def test_kinds_of_work_have_their_cautions_and_no_advice(self) -> None:
        script = thread("[search]", cpu(60.0), stack(10, SCRIPT))
        first, second = summary_of(Capture(section("n1", script, merge_thread("logs", 3))))["kinds"]
        assert first == {
            "kind": "search.script",
            "label": "Script run for each document",
            "share_percent": 75.0,
            "threads": 1,
            "nodes": 1,
            "frame": "org.opensearch.painless.PainlessScript$Script.execute",
        }
        assert (second["index"], second["shard"], second["caution"]) == ("logs", 3, "from one snapshot")

    def test_other_and_idle_time_are_shown_as_such_and_rank_nothing(self) -> None:
        text = section(
            "n1",
            thread("elasticsearch[n1][transport_worker][T#2]", split(100, 4.3, other=95.7)),
            thread("elasticsearch[n1][search][T#3]", split(88, 80.5, other=7.5)),
            thread("elasticsearch[n1][write][T#1]", split(0.5, 0.5, idle=99.5)),
        )
        assert summary_of(Capture(text))["hottest"] == [
            {"node": "n1", "percent": 80.5, "thread": "elasticsearch[n1][search][T#3]", "other_percent": 7.5},
            {"node": "n1", "percent": 4.3, "thread": "elasticsearch[n1][transport_worker][T#2]", "other_percent": 95.7},
            {"node": "n1", "percent": 0.5, "thread": "elasticsearch[n1][write][T#1]", "idle_percent": 99.5},
        ]

    def test_memory_is_in_bytes(self) -> None:
        text = section("n1", thread("t", "1.5kb memory allocated"))
        assert summary_of(Capture(text))["hottest"] == [{"node": "n1", "percent": None, "thread": "t", "bytes": 1536}]

    def test_groups_are_the_five_heaviest_without_their_queries(self) -> None:
        groups = summary_of(with_groups("n"))["groups"]
        assert [group["opaque_id"] for group in groups] == ["19n"] * 3 + ["18n"] * 2
        names = {"node", "action", "opaque_id", "index", "seen", "running", "longest_ms", "cpu_share_percent"}
        assert set(groups[0]) == names
        assert "groups" not in summary_of(Capture(report("n")))

    def test_names_are_text_that_any_database_takes(self) -> None:
        text = report("node-1").replace("[search]", "[sear\udcffch" + "x" * 500)
        found = summary_of(captured(text, {"n\ud800\0": 5}))
        assert found["hottest"][0]["thread"].startswith("opensearch[node-1][sear\ufffdch")
        assert len(found["hottest"][0]["thread"]) == 200
        assert found["cpu"] == [{"node": "n\ufffd\ufffd", "percent": 5.0, "source": "os"}]
        assert found["missing"] == ["n\ufffd\ufffd"]

    def test_the_size_is_that_of_what_was_sent(self) -> None:
        assert summary_of(Capture("::: {Knötchen\udcff}\n"))["bytes"] == len("::: {Knötchen}\n".encode()) + 1


class TestSize:
    def test_lists_are_cut_and_say_by_how_much(self) -> None:
        names = [f"node-{number}." for number in range(300)]
        cpu: dict[str, float | None] = {**dict.fromkeys(names, 90), names[299]: 99, names[0]: None}
        found = summary_of(captured(report(*names[:200]), cpu))
        shown = {name: len(found[name]) for name in ("nodes", "cpu", "missing")}
        assert {name: shown[name] + found["left_out"][name] for name in shown} == {
            "nodes": 200,
            "cpu": 300,
            "missing": 100,
        }
        assert shown["nodes"] == shown["missing"] == 50
        assert found["cpu"][0] == {"node": "node-299.", "percent": 99.0, "source": "os"}

    @pytest.mark.parametrize(
        "capture",
        [
            *(many_nodes(1_000, name) for name in ("n-{}", "ü" * 150 + "{}")),
            *(with_groups(name, nodes=60) for name in ("n", "ü" * 300, "\U0001f600" * 300, "\0\udc80" * 300)),
            Capture(section("n1", *(merge_thread("i" * 200, shard) for shard in range(500)))),
        ],
        ids=["names", "long names", *["clients"] * 4, "merges"],
    )
    def test_size_is_bounded_whatever_a_cluster_has_and_whatever_it_is_called(self, capture: Capture) -> None:
        one = summary_of(capture)
        assert len(json.dumps(one)) < 30_000
        assert one["hottest"]
        assert len(json.dumps(bounded([{"paths": {}, **one}] * 50, []))) < LIMIT


class TestSentence:
    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            (
                section("n", thread("[search][T#3]", split(97, 88, other=9), unique("org.x.Run.step(R:1)"))),
                "hottest: 88.0 % [search][T#3] on n, Run.step; work: 100 % Search: which kind is not visible (by its",
            ),
            (section("n", thread("t", cpu(5))), "hottest: 5.0 % t on n; work in what was read, 79 % of the text: "),
            (section("n", thread("t", "1.5kb memory allocated")), "hottest: 1.5 kB t on n; work in "),
            (section("n", thread("t", cpu(0))), "no thread was hot"),
            (section("n"), "no thread was hot"),
            ("hello world", "nothing was understood"),
            (section("n", thread("a\x1b[31m", cpu(5))), r"hottest: 5.0 % a\x1b[31m on n; work in "),
        ],
    )
    def test_sentence_names_the_hottest_thread(self, text: str, sentence: str) -> None:
        assert hottest_sentence(Capture(text)).startswith(sentence)

    def test_sentence_is_one_bounded_line(self) -> None:
        merges = (f"opensearch[n][[{'i' * 250}{shard}][{shard}]: Lucene Merge Thread #1]" for shard in range(9))
        threads = [thread("t" * 10_000, cpu(50)), *(thread(name, cpu(5), unique(MERGE)) for name in merges)]
        sentence = hottest_sentence(Capture(section("n", *threads)))
        assert "\n" not in sentence
        assert len(sentence) <= 800

    def test_sentence_names_the_three_hottest_kinds_of_work_with_their_shares_and_cautions(self) -> None:
        threads = [
            thread("opensearch[n][search][T#1]", cpu(60), stack(10, SCRIPT)),
            thread("opensearch[n][[logs][3]: Lucene Merge Thread #7]", cpu(25), unique(MERGE)),
            thread("opensearch[n][write][T#1]", cpu(10)),
            thread("opensearch[n][search][T#2]", cpu(5)),
        ]
        assert hottest_sentence(Capture(section("n", *threads))).partition("; ")[2] == (
            "work in what was read, 91 % of the text: 60 % Script run for each document, "
            "25 % Merging segments: logs, shard 3 (from one snapshot), "
            "10 % Indexing: which part is not visible (by its thread pool only)"
        )


class TestSeries:
    def test_a_small_one_stays_as_it_is(self) -> None:
        captures, failures = [summary(3), summary(2)], [{"error": "x"}]
        assert bounded(captures, failures) == {"captures": captures, "failures": failures}
        assert bounded([], failures) == {"captures": [], "failures": failures}

    @pytest.mark.parametrize("nodes", [60, 1_000])
    @pytest.mark.parametrize("captures", [10, 50])
    def test_the_result_stays_below_48_kb(self, nodes: int, captures: int) -> None:
        one = summary(nodes)
        failures = [{"message": "m" * 500, "capture": number} for number in range(20)]
        series = bounded([one] * captures, failures)
        assert result_of(series) < LIMIT
        assert len(series["captures"]) == captures
        assert series["captures"][0] == one
        for later in series["captures"][1:]:
            assert later.keys() == one.keys()
            assert later["paths"] == one["paths"]
            assert len(later["nodes"]) + later["left_out"]["nodes"] == nodes
            assert len(later["cpu"]) + later["left_out"]["cpu"] == len(one["cpu"]) + one["left_out"]["cpu"]
        assert series["failures"][-1]["capture"] == 19

    def test_the_hottest_go_last(self) -> None:
        one = summary(60)
        (_, later, *_) = bounded([one] * 20, [])["captures"]
        for name in ("nodes", "cpu", "hottest"):
            kept = later[name]
            assert kept == one[name][: len(kept)] != []
            assert len(kept) + later["left_out"][name] == len(one[name]) + one["left_out"].get(name, 0)

    def test_of_endless_paths_the_last_captures_are_counted(self) -> None:
        one = summary(1_000, folder="/" + "f" * 1_000)
        series = bounded([one] * 50, [])
        assert result_of(series) < LIMIT
        assert 1 <= len(series["captures"]) < 50
        assert series["captures"][0]["left_out"]["later_captures"] == 50 - len(series["captures"])

    def test_without_statistics_there_is_no_list_to_cut(self) -> None:
        one = {
            **summary_of(Capture(report(*(f"n{number}" for number in range(60))))),
            "paths": {"txt": "/" + "p" * 500},
        }
        series = bounded([one] * 50, [])
        assert result_of(series) < LIMIT
        assert series["captures"][1]["cpu"] is None
