"""Reports as people paste them: cut lines, prompts, pieces without a header, and texts that are no report."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_mediaops.cluster.hot_threads import HotThreadsReport, parse
from tests.unit.hot_threads_text import cpu, section, stack, thread

PROMPT = "$ curl -s localhost:9200/_nodes/hot_threads\n"
FRAME = "a.B.c(B.java:1)"


def rendered(text: str) -> HotThreadsReport:
    report = parse(text)
    assert report.render() == text
    return report


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("88.0% (440ms out of 500ms) cpu usage by thr", ("cpu", 88.0, 88.0, None, "440ms", "500ms", 88.0)),
        ("88.0% (440ms out of 500ms) cpu", ("cpu", 88.0, 88.0, None, "440ms", "500ms", 88.0)),
        ("88.0% (440ms out of 500ms) block usa", ("block", 88.0, None, None, "440ms", "500ms", 88.0)),
        ("88.0% (440ms out of 500ms) cp", (None, 88.0, None, None, "440ms", "500ms", 88.0)),
        ("88.0% (440ms out of 50", (None, 88.0, None, None, "440ms", None, 88.0)),
        ("88.0% (440ms o", (None, 88.0, None, None, None, None, 88.0)),
        ("88.0% (44", (None, 88.0, None, None, None, None, 88.0)),
        ("59.6% [cpu=17.9%, other=41.7%] (298ms out of 5", ("cpu", 59.6, 17.9, 41.7, "298ms", None, 17.9)),
        ("59.6% [cpu=17.9%, other=41.7%", ("cpu", 59.6, 17.9, 41.7, None, None, 17.9)),
        ("59.6% [cpu=17.9%, other=4", ("cpu", 59.6, 17.9, None, None, None, 17.9)),
        ("59.6% [cpu=17.9%, ot", ("cpu", 59.6, 17.9, None, None, None, 17.9)),
        # The sum with the other time is no CPU.
        ("59.6% [cpu=17.", ("cpu", 59.6, None, None, None, None, None)),
        ("1.5kb memory alloc", ("mem", None, None, None, None, None, 1536)),
        # Of other words.
        ("10% (ten percent) of the nodes failed", (None,) * 7),
        ("5.0% [idx-1] was slow", (None,) * 7),
        ("1b memory?", (None,) * 7),
    ],
)
def test_cut_line_of_a_thread_keeps_the_figures_that_are_whole(line: str, expected: tuple[Any, ...]) -> None:
    report = rendered(f"   {line}\n     unique snapshot\n")
    (one,) = report.nodes[0].threads
    assert (one.kind, one.percent, one.cpu_percent, one.other_percent, one.time, one.out_of, one.amount) == expected
    assert [found.reason for found in report.unparsed] == ["a thread's line that ends before the thread's name"]


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        *((text, False) for text in ("", "\n", "hello world", "<html>\n", PROMPT, ":::\n", f"       {FRAME}\n")),
        (section("n1"), True),
        (PROMPT + section("n1"), True),
        ("::: {n1}\n", True),
        ("   Hot threads at 2022-04-01T15:15:27.658Z, interval=500ms:\n", True),
        (thread("t", cpu(1.0)), True),
        ("   10.0% (50ms out of 5", True),
    ],
)
def test_text_in_which_nothing_was_understood_is_known_as_such(text: str, *, understood: bool) -> None:
    assert rendered(text).understood is understood


@pytest.mark.parametrize("before", [PROMPT, "\n" + PROMPT + "\n", "node1> GET hot_threads\n\n~\n", f"{FRAME}\n"])
@pytest.mark.parametrize("piece", [section("n1", thread("t", cpu(10.0), stack(10, FRAME))), thread("[n1]", cpu(1.0))])
def test_lines_before_the_first_node_are_of_none(before: str, piece: str) -> None:
    report = rendered(before + piece)
    assert [len(node.threads) for node in report.nodes] == [1]
    assert report.source == before
    assert "".join(found.text for found in report.unparsed).startswith(before.strip())


@pytest.mark.parametrize(
    ("names", "nodes"),
    [
        (("Attach Listener", "elasticsearch[n1][write][T#1]"), [("n1", 2)]),
        (
            ("opensearch[n1][write][T#1]", "opensearch[n1][write][T#2]", "opensearch[n2][write][T#1]"),
            [("n1", 2), ("n2", 1)],
        ),
        (("[write]",), [(None, 1)]),
    ],
)
def test_piece_without_a_header_is_of_the_node_in_its_threads_names(
    names: tuple[str, ...], nodes: list[tuple[str | None, int]]
) -> None:
    report = rendered("".join(thread(name, cpu(10.0)) for name in names))
    assert [(node.name, len(node.threads)) for node in report.nodes] == nodes
    assert {node.header for node in report.nodes} == {None}


def test_name_in_a_header_holds_against_those_in_threads_names() -> None:
    report = rendered(section("n1", thread("opensearch[n2][write][T#1]", cpu(10.0))))
    assert [node.name for node in report.nodes] == ["n1"]
