"""Where people see the kinds of work: the page, JSON, folded stacks, the result of the task."""

from __future__ import annotations

import json
import re

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.page.document import page
from tests.unit.cluster.made_pages import capture, words_of
from tests.unit.hot_threads_text import ATTACKS, cpu, section, stack, thread, unique

SCRIPT = "org.opensearch.painless.PainlessScript$Script.execute(doc['a'].value:7)"
MERGE = "org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run(ConcurrentMergeScheduler.java:1)"
SEARCH = "opensearch[n1][search][T#1]"
TEXT = section(
    "n1",
    thread(SEARCH, cpu(60.0), stack(10, SCRIPT)),
    thread("opensearch[n1][[logs][3]: Lucene Merge Thread #7]", cpu(20.0), unique(MERGE)),
)


def shown(*texts: str) -> str:
    return words_of(page(list(map(capture, texts)), title="Hot threads"))


def test_page_says_share_kind_place_and_next_step_in_its_head() -> None:
    head = shown(TEXT).partition("What is hot")[0]
    assert (
        "75 % of the CPU of these threads: Script run for each document , in 1 thread on n1. "
        "GET _tasks?detailed&actions=*search shows the queries that run; compute the value when indexing."
    ) in head


def test_page_has_a_row_for_each_kind_with_the_frame_that_told_it() -> None:
    table = shown(TEXT).partition("By kind of work, across nodes")[2].partition("By thread")[0]
    script, _, merge = table.partition("Merging segments: logs, shard 3")
    assert "Script run for each document 75.0 % 1 n1 org.opensearch.painless. PainlessScript$Script.execute" in script
    assert merge.startswith(" from one snapshot 25.0 % 1 n1")


def test_page_of_several_captures_sums_their_kinds() -> None:
    other = section("n2", thread("opensearch[n2][search][T#1]", cpu(20.0), stack(10, SCRIPT)))
    words = shown(TEXT, other)
    assert "80 % of the CPU of these threads: Script run for each document , in 2 threads on n1 and n2." in words


def test_page_says_of_waiting_threads_what_they_wait_in() -> None:
    usage = "50.0% (250ms out of 500ms) wait usage"
    assert "100 % of the waiting: Script run" in shown(section("n1", thread(SEARCH, usage, stack(10, SCRIPT))))
    nothing = usage.replace("50.0%", "0.0%")
    assert "100 % of these threads: Script" in shown(section("n1", thread(SEARCH, nothing, stack(10, SCRIPT))))


def test_page_of_a_report_in_which_nothing_was_hot_names_no_kind() -> None:
    words = shown(section("n1"))
    assert "By kind of work, across nodes Kind of work Share of report Threads Nodes Told by" in words
    assert "What to look at next Nothing." in words
    assert " of the CPU of these threads:" not in words


def test_index_of_a_merge_cannot_be_markup_on_the_page() -> None:
    for attack in ATTACKS[:6]:
        name = f"opensearch[n1][[{attack.replace('[', '(').replace(']', ')')}][3]: Lucene Merge Thread #7]"
        text = section("n1", thread(name, cpu(20.0), stack(10, MERGE)))
        html = page([capture(text)], title="Hot threads")
        body = re.sub(r"<(script|style)\b.*?</\1>", " ", html, flags=re.DOTALL)
        assert "<img" not in body
        assert "<svg/" not in body
        assert "Merging segments" in body


def test_json_has_the_kinds_of_the_whole_and_of_each_thread() -> None:
    written = json.loads(Capture(TEXT).content("json"))
    assert [(kind["kind"], kind["share_percent"]) for kind in written["kinds"]] == [
        ("search.script", 75.0),
        ("merge.segments", 25.0),
    ]
    [script], [merge] = [each["kinds"] for each in written["nodes"][0]["threads"]]
    assert script == {
        "kind": "search.script",
        "label": "Script run for each document",
        "share_percent": 100.0,
        "snapshots": 10,
        "told_by": "frame",
        "frame": "org.opensearch.painless.PainlessScript$Script.execute",
    }
    assert (merge["kind"], merge["snapshots"]) == ("merge.segments", 1)


def test_result_has_the_kinds_with_their_cautions_and_without_advice() -> None:
    assert Capture(TEXT).summary()["kinds"] == [
        {
            "kind": "search.script",
            "label": "Script run for each document",
            "share_percent": 75.0,
            "threads": 1,
            "nodes": 1,
            "frame": "org.opensearch.painless.PainlessScript$Script.execute",
        },
        {
            "kind": "merge.segments",
            "label": "Merging segments",
            "share_percent": 25.0,
            "threads": 1,
            "nodes": 1,
            "index": "logs",
            "shard": 3,
            "frame": "org.apache.lucene.index.ConcurrentMergeScheduler$MergeThread.run",
            "caution": "from one snapshot",
        },
    ]


def test_result_of_very_many_merges_stays_small() -> None:
    merges = "".join(
        thread(f"opensearch[n1][[{'i' * 200}{n}][{n}]: Lucene Merge Thread #{n}]", cpu(20.0), stack(10, MERGE))
        for n in range(500)
    )
    summary = Capture(section("n1", merges)).summary()
    assert 1 <= len(summary["kinds"]) <= 5
    assert all(len(kind["index"]) == 120 for kind in summary["kinds"])
    assert len(json.dumps(summary)) < 16_000
