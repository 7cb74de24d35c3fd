"""Recorded reports with lines lost, doubled, moved or damaged: each line is understood or told, none is passed over."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.hot_threads.grammar import content_of
from airflow_provider_mediaops.cluster.hot_threads.parser import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.cluster.hot_threads.model import HotNode, HotThread, HotThreadsReport

RECORDED = Path(__file__).parents[3] / "data" / "hot_threads"
MOST_LINES = 40
BREAKS = ["\n", "\n\n", " ", "{", "}", "[", "]", "'", "(", ")", ".", ",", "=", "%", ":::", "#", "0", "x", "\r", "\x85"]
STRANGERS = [
    "...",
    "       a.b(C.java:1)",
    "     unique snapshot",
    ":::",
    "hot_threads is not supported on FreeBSD",
    "",
]


def excerpts(folder: Path) -> st.SearchStrategy[list[str]]:
    """Lines that follow one another in a recorded report."""
    texts = [path.read_bytes().decode().split("\n") for path in sorted(folder.glob("*-*.txt"))]
    assert texts
    return st.sampled_from(texts).flatmap(
        lambda lines: st.builds(
            lambda start, most: lines[start : start + most], st.integers(0, len(lines) - 1), st.integers(1, MOST_LINES)
        )
    )


@st.composite
def mutated(draw: st.DrawFn, folder: Path) -> str:
    lines = draw(excerpts(folder))
    for _ in range(draw(st.integers(1, 4))):
        place, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        line = lines[place]
        column = draw(st.integers(0, len(line)))
        lines[place : place + 1] = draw(
            st.sampled_from(
                [
                    [],
                    [line, line],
                    [line[:column]],
                    [lines[other], line],
                    [line + lines[other]],
                    [draw(st.sampled_from(STRANGERS)), line],
                    [line[:column] + draw(st.sampled_from(BREAKS)) + line[column:]],
                ]
            )
        )
        lines = lines or [""]
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines) + draw(st.sampled_from(["", "\n"]))


def contents(text: str) -> list[str]:
    return [content for line in text.split("\n") if (content := content_of(line))]


def joined_to(lines: list[str], end: str) -> list[str]:
    """As many of the first lines as it takes to come to an end that may have been broken; at least the first."""
    wanted = " ".join(end.split())
    for count in range(1, 5):
        if " ".join(" ".join(lines[:count]).split()).endswith(wanted):
            return lines[:count]
    return lines[:1]


def said_by_node(node: HotNode) -> Iterator[str]:
    lines = contents(node.source)
    if node.header is not None:
        yield from joined_to(lines, node.header)
    if node.timestamp_text is not None:
        place = next(place for place, line in enumerate(lines) if line.startswith("Hot threads at"))
        yield from joined_to(lines[place:], ":")
    if node.failure is not None:
        yield node.failure


def said_by_thread(thread: HotThread) -> Iterator[str]:
    yield from joined_to(contents(thread.source), f"by thread '{thread.name}'")
    for group in thread.groups:
        yield contents(group.source)[0]
        yield from group.frames


def passed_over(text: str, report: HotThreadsReport) -> list[str]:
    """The lines of a text of which a report says nothing."""
    understood = Counter(line for node in report.nodes for line in said_by_node(node))
    understood += Counter(line for node in report.nodes for thread in node.threads for line in said_by_thread(thread))
    told = Counter(line for found in report.unparsed for line in contents(found.text))
    return list(Counter(contents(text)) - understood - told)


def check(text: str) -> None:
    report = parse(text)
    assert report.render() == text
    assert passed_over(text, report) == []
    assert all(found.text in text and found.reason for found in report.unparsed)
    for found in report.unparsed:
        assert text.split("\n")[found.line - 1].rstrip() == found.text.split("\n")[0].rstrip()


@given(st.data())
def test_a_report_of_the_test_cluster(data: st.DataObject) -> None:
    check(data.draw(mutated(RECORDED)))


@given(st.data())
def test_a_shared_report(shared_data: Path, data: st.DataObject) -> None:
    check(data.draw(mutated(shared_data / "hot_threads")))
