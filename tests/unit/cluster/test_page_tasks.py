"""The part of the page that shows which tasks ran while the threads were measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_provider_mediaops.cluster.page.document import MOST_NODES, page
from airflow_provider_mediaops.cluster.running_tasks.model import LikelyGroup, NodeTasks, RunningTasks
from tests.unit.cluster.made_pages import BUSY, Document, capture, made
from tests.unit.cluster.task_values import BULK, NODE, REPORT, TASKS, hostile_tasks

HEADINGS = "X-Opaque-Id Action Index Query Share of node Requests Running Queued Longest Listed Likely pool"


def behind(*captures: Any) -> str:
    """Return the text of the section."""
    text = made(*captures).text()
    return text[text.index("Who was behind it") : text.index("Flame graph")]


def shown(node: NodeTasks, *remarks: str) -> str:
    return behind(capture(BUSY, running_tasks=RunningTasks(nodes=(node,), remarks=remarks)))


class TestContent:
    def test_node_shows_what_used_most_and_when_it_was_looked_at(self) -> None:
        text = behind(capture(BUSY, running_tasks=TASKS))
        most = "report:nightly-margin (indices:data/read/search on orders-2026) used 464 ms of the 942 ms of CPU"
        assert most in text
        assert "Listed 4 times, 1 to 561 ms after the report was asked for: 14 tasks at the first look, 3 at" in text
        assert "search 4 active, 9 queued; write 1 active, 0 queued, 1,204 rejected since the start of the" in text
        assert "The shard statistics were refused." in text
        assert "The reply had more tasks than are read: 2,000 of 9,311 are counted." in text

    def test_groups_threads_and_indices_have_rows_with_all_that_is_known_of_them(self) -> None:
        text = shown(NODE)
        assert HEADINGS in text
        query = '{"aggs":{"tags":{"terms":{"field":?,"size":?}}},"size":?}'
        report = f"report:nightly-margin indices:data/read/search orders-2026 {query} 49.3 % 464 ms 1 1 0 4.0 s at both"
        assert report in text
        assert "no X-Opaque-Id indices:data/write/bulk ingest-target – – 12 2 9 49 ms at the start" in text  # noqa: RUF001
        assert "3 more rows are left out here." in text
        assert "not explained by any listed task 50.7 %" in text
        claimed = "report:nightly-margin (indices:data/read/search on orders-2026) 1.4 ms"
        assert f"opensearch[n1][search][T#1] 466 ms {claimed}" in text
        assert "opensearch[n1][search][T#2] 476 ms two tasks used as much –" in text  # noqa: RUF001
        assert "ingest-target 494 ms 0 ms 404 ms 90 ms 2 under way orders-2026 263 ms 263 ms 0 ms 0 ms" in text

    def test_of_several_groups_the_heaviest_is_named(self) -> None:
        light = replace(REPORT, opaque_id="light", cpu_ms=100.0)
        assert "orders-2026) used 464 ms of the" in shown(replace(NODE, groups=(light, REPORT, light)))

    def test_cpu_that_no_task_explains_has_a_row_where_there_are_no_groups(self) -> None:
        node = NodeTasks(node="n1", looks_ms=(0.0,), unexplained_percent=100.0)
        assert "not explained by any listed task 100.0 %" in shown(node)

    def test_a_cluster_that_does_not_say_the_cpu_of_tasks_has_no_columns_for_it(self) -> None:
        groups = tuple(replace(group, cpu_ms=None, cpu_share_percent=None, queued=None) for group in NODE.groups)
        text = shown(replace(NODE, groups=groups, unexplained_percent=None, threads=()))
        assert "X-Opaque-Id Action Index Query Requests Running Longest Listed Likely pool" in text
        assert "not explained" not in text
        assert "used 464 ms" not in text
        assert "A share of the node" not in text
        assert "No server says on which thread" not in text

    def test_a_node_whose_tasks_were_not_asked_for_says_so(self) -> None:
        text = shown(NodeTasks(node="n1", remarks=("Its search pool has 4,000 tasks in its queue.",)))
        assert "Its tasks were not listed." in text
        assert "Its search pool has 4,000 tasks in its queue." in text
        assert "Likely pool" not in text

    def test_queries_are_shown_in_place_of_their_shapes_if_they_were_asked_for(self) -> None:
        text = shown(replace(NODE, groups=(replace(REPORT, query='{"size":7}', requests=5, read_requests=2),)))
        assert '{"size":7} read of 2 of 5' in text
        assert '"size":?' not in text

    def test_a_capture_without_tasks_has_no_section(self) -> None:
        assert "Who was behind it" not in made(capture(BUSY)).text()

    def test_of_several_captures_each_node_names_its_own(self) -> None:
        text = behind(capture(BUSY), capture(BUSY, running_tasks=TASKS))
        assert "n1, capture 2 · 20:00:00" in text
        assert "n1, capture 1" not in text
        assert "2 · 20:00:00: The shard statistics were refused." in text

    def test_a_group_that_is_not_there_is_not_claimed(self) -> None:
        # As a file of another version may say.
        text = shown(replace(NODE, threads=(LikelyGroup(thread="t", cpu_ms=1.0, group=9, error_ms=0.1),)))
        assert "t 1.0 ms none –" in text  # noqa: RUF001


class TestLimits:
    def test_a_cluster_of_a_thousand_nodes_shows_those_that_were_hottest_in_the_order_of_the_report(self) -> None:
        nodes = tuple(
            replace(NODE, node=f"node-{number}", threads=(LikelyGroup(cpu_ms=float(number % 500), why_not="?"),))
            for number in range(1_000)
        )
        html = page([capture(BUSY, running_tasks=RunningTasks(nodes=nodes))], title="x")
        headings = [text for tag, text in Document(html).texts if tag == "h3" and text.startswith("node-")]
        assert headings == [f"node-{n}" for n in range(1_000) if n % 500 >= 500 - MOST_NODES // 2]
        assert f"no room for the tasks of {1_000 - MOST_NODES} nodes" in Document(html).text()
        without = page([capture(BUSY)], title="x")
        assert len(html) - len(without) < 300_000

    def test_many_groups_threads_and_indices_are_cut(self) -> None:
        node = replace(
            NODE,
            groups=tuple(replace(BULK, opaque_id=f"client-{number}") for number in range(500)),
            threads=tuple(LikelyGroup(thread=f"thread-{number}", why_not="no CPU") for number in range(500)),
            indices=tuple(replace(NODE.indices[0], index=f"index-{number}") for number in range(500)),
        )
        text = shown(node)
        assert [text.count(one) for one in ("client-", "thread-", "index-")] == [15, 15, 15]
        assert "488 more rows are left out here." in text
        assert text.count("485 more rows are left out here.") == 2

    def test_a_series_has_room_for_a_node_of_each_capture(self) -> None:
        tasks = RunningTasks(nodes=(NODE, replace(NODE, node="n2")))
        text = behind(*(capture(BUSY, running_tasks=tasks) for _ in range(50)))
        assert text.count("Listed 4 times") == 50
        assert "no room for the tasks of 50 nodes" in text

    def test_hostile_texts_are_text_and_cut(self) -> None:
        html = page([capture(BUSY, running_tasks=hostile_tasks(1_000_000))], title="x")
        document = Document(html)
        harmless = Document(page([capture(BUSY, running_tasks=TASKS)], title="x"))
        assert {tag for tag, _ in document.elements} <= {tag for tag, _ in harmless.elements}
        assert len(document.of("script")) == len(harmless.of("script"))
        for character in "\u202e\u2028\x00\x1b\ud800\x85":
            assert character not in html
        assert "x" * 300 not in html
        assert len(html) < 600_000
