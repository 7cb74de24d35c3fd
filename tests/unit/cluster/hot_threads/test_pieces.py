"""Reports as people paste them: cut lines, prompts, pieces without a header, and texts that are no report."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_mediaops.cluster.comparison import compare
from airflow_provider_mediaops.cluster.folded import folded
from airflow_provider_mediaops.cluster.hot_threads import HotThreadsReport, parse
from tests.unit.hot_threads_text import cpu, section, split, stack, thread

PROMPT = "$ curl -s localhost:9200/_nodes/hot_threads\n"
FRAME = "a.B.c(B.java:1)"


def understood(text: str) -> HotThreadsReport:
    report = parse(text)
    assert report.render() == text
    return report


class TestCutLines:
    """R2: a thread's line that is cut keeps the figures that are whole."""

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("88.0% (440ms out of 500ms) cpu usage by thr", ("cpu", 88.0, 88.0, None, "440ms", "500ms")),
            ("88.0% (440ms out of 500ms) cpu", ("cpu", 88.0, 88.0, None, "440ms", "500ms")),
            ("88.0% (440ms out of 500ms) block usa", ("block", 88.0, None, None, "440ms", "500ms")),
            ("88.0% (440ms out of 500ms) cp", (None, 88.0, None, None, "440ms", "500ms")),
            ("88.0% (440ms out of 50", (None, 88.0, None, None, "440ms", None)),
            ("88.0% (440ms o", (None, 88.0, None, None, None, None)),
            ("88.0% (44", (None, 88.0, None, None, None, None)),
            ("59.6% [cpu=17.9%, other=41.7%] (298ms out of 5", ("cpu", 59.6, 17.9, 41.7, "298ms", None)),
            ("59.6% [cpu=17.9%, other=41.7%", ("cpu", 59.6, 17.9, 41.7, None, None)),
            ("59.6% [cpu=17.9%, other=4", ("cpu", 59.6, 17.9, None, None, None)),
            ("59.6% [cpu=17.9%, ot", ("cpu", 59.6, 17.9, None, None, None)),
        ],
    )
    def test_figures_that_are_whole_are_kept(self, line: str, expected: tuple[Any, ...]) -> None:
        report = understood(f"   {line}\n     unique snapshot\n")
        (one,) = report.nodes[0].threads
        found = (one.kind, one.percent, one.cpu_percent, one.other_percent, one.time, one.out_of)
        assert found == expected
        assert [found.reason for found in report.unparsed] == [
            "a thread's line that ends before the thread's name",
        ]

    def test_a_cut_split_is_not_taken_for_cpu(self) -> None:
        (one,) = understood("   59.6% [cpu=17.\n").nodes[0].threads
        assert (one.kind, one.percent, one.cpu_percent, one.amount) == ("cpu", 59.6, None, None)

    def test_memory_is_kept(self) -> None:
        (one,) = understood("   1.5kb memory alloc\n").nodes[0].threads
        assert (one.kind, one.memory_bytes, one.amount) == ("mem", 1536, 1536)

    @pytest.mark.parametrize("line", ["10% (ten percent) of the nodes failed", "5.0% [idx-1] was slow", "1b memory?"])
    def test_a_line_of_other_words_gives_no_figures(self, line: str) -> None:
        (one,) = understood(line).nodes[0].threads
        assert (one.percent, one.memory_bytes, one.amount) == (None, None, None)

    def test_a_cut_line_is_measured(self) -> None:
        text = section("n1", f"   {cpu(88.0)} by thr\n", stack(10, FRAME))
        assert [one.heat.peak for one in compare([parse(text)]).threads] == [88.0]
        assert folded([parse(text)]) == f"n1;(no name);(no name);{FRAME} 880\n"


class TestNothingUnderstood:
    """R3: a text in which nothing was understood is known as such."""

    @pytest.mark.parametrize("text", ["", "\n", "hello world", "<html>\n", PROMPT, ":::\n", f"       {FRAME}\n"])
    def test_no_report(self, text: str) -> None:
        assert not understood(text).understood

    @pytest.mark.parametrize(
        "text",
        [
            section("n1"),
            PROMPT + section("n1"),
            "::: {n1}\n",
            "   Hot threads at 2022-04-01T15:15:27.658Z, interval=500ms:\n",
            thread("t", cpu(1.0)),
            "   10.0% (50ms out of 5",
        ],
    )
    def test_a_report_or_a_piece_of_one(self, text: str) -> None:
        assert understood(text).understood


class TestPrompts:
    """R4: lines before the first header are no node."""

    @pytest.mark.parametrize("before", [PROMPT, "\n" + PROMPT + "\n", "node1> GET hot_threads\n\n~\n", f"{FRAME}\n"])
    def test_lines_before_the_first_header(self, before: str) -> None:
        report = understood(before + section("n1", thread("t", cpu(10.0), stack(10, FRAME))))
        assert [node.name for node in report.nodes] == ["n1"]
        assert report.source == before
        assert "".join(found.text for found in report.unparsed).split() == before.split()

    def test_lines_before_a_piece_without_header(self) -> None:
        report = understood(PROMPT + thread("t", cpu(10.0)))
        assert [(node.name, len(node.threads)) for node in report.nodes] == [(None, 1)]
        assert report.source == PROMPT

    def test_text_under_no_header_makes_a_nameless_node(self) -> None:
        report = understood(PROMPT)
        assert [(node.name, node.header, node.source) for node in report.nodes] == [(None, None, PROMPT)]


class TestPiecesWithoutHeader:
    """R6: a piece without header belongs to the node in its threads' names."""

    def test_the_node_of_the_names(self) -> None:
        report = understood(
            thread("Attach Listener", cpu(1.0)) + thread("elasticsearch[n1][write][T#1]", cpu(10.0), stack(10, FRAME))
        )
        assert [(node.header, node.name, len(node.threads)) for node in report.nodes] == [(None, "n1", 2)]
        assert folded([report]).splitlines()[1].startswith("n1;write;")

    def test_names_of_several_nodes_make_several_nodes(self) -> None:
        names = ("opensearch[n1][write][T#1]", "opensearch[n1][write][T#2]", "opensearch[n2][write][T#1]")
        report = understood("".join(thread(name, cpu(10.0)) for name in names))
        assert [(node.name, len(node.threads)) for node in report.nodes] == [("n1", 2), ("n2", 1)]
        assert {heat.name: heat.peak for heat in compare([report]).nodes} == {"n1": 20.0, "n2": 10.0}

    def test_below_a_header_the_header_holds(self) -> None:
        report = understood(section("n1", thread("opensearch[n2][write][T#1]", cpu(10.0))))
        assert [node.name for node in report.nodes] == ["n1"]

    def test_names_without_a_node(self) -> None:
        assert [node.name for node in understood(thread("[write]", cpu(10.0))).nodes] == [None]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (split(59.6, 17.9, other=41.7), ("cpu", 59.6, 17.9, 41.7, None, 17.9)),
        (split(0.5, 0.5, idle=99.5), ("cpu", 0.5, 0.5, None, 99.5, 0.5)),
        ("9.0% [cpu=NaN%, other=9.0%] (45ms out of 500ms) cpu usage", ("cpu", 9.0, None, 9.0, None, None)),
        ("9.0% (45ms out of 500ms) cpu usage", ("cpu", 9.0, 9.0, None, None, 9.0)),
        ("NaN% (0s out of 500ms) cpu usage", ("cpu", None, None, None, None, None)),
        ("9.0% (45ms out of 500ms) wait usage", ("wait", 9.0, None, None, None, 9.0)),
        ("9.0% (45ms out of 500ms) block usage", ("block", 9.0, None, None, None, 9.0)),
        ("1.5kb memory allocated", ("mem", None, None, None, None, 1536)),
    ],
)
def test_line_of_a_thread_gives_its_use(usage: str, expected: tuple[Any, ...]) -> None:
    """R1: CPU is `cpu`; other and idle time are shown and never count."""
    (one,) = understood(section("n1", thread("t", usage))).nodes[0].threads
    found = (one.kind, one.percent, one.cpu_percent, one.other_percent, one.idle_percent)
    assert (*found, one.amount) == expected
    told = one.to_dict()
    assert tuple(told[name] for name in ("kind", "percent", "cpu_percent", "other_percent", "idle_percent")) == found
