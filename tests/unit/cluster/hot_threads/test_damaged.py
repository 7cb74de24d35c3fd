"""Texts that are cut, edited, or no report at all: nothing raised, nothing lost, and a word on all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.unit.cluster.hot_threads.short_texts import HEADER, REPORT, SAMPLING, STACK, THREAD, UNIQUE

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

FRAME = "       a.B.c(B.java:1)\n"
FREEBSD = "   hot_threads is not supported on FreeBSD\n"

# Words by which the lines of a report are known, so that arbitrary text comes near to one.
PIECES = [
    *":{}[]'\n\r #=,().%\x85",
    ":::",
    "\r\n",
    "  ",
    "inet[/",
    " by thread '",
    "Hot threads at ",
    "interval=500ms",
    "unique snapshot",
    "cpu usage",
    "memory allocated",
    "9" * 5000,
    "10/10 snapshots sharing following ",
    " elements",
    "1.0% (",
    " out of ",
    "500ms",
    "a.b.C.d(E.java:1)",
    "not supported",
    HEADER,
    SAMPLING,
    THREAD,
    STACK,
]


def remarks(report: HotThreadsReport) -> list[tuple[int, str]]:
    return [(found.line, found.reason) for found in report.unparsed]


UNKNOWN = "not a line of a hot-threads report"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEADER[:30], [(1, "a node's header that is not complete")]),
        ("::: [n1][id1][es1][inet[/10.0\n", [(1, "a node's header that is not complete")]),
        ("::: [n1][id1][inet[/10.0.0.1:9300]\n", [(1, "unknown in a node's header: '[inet[/10.0.0.1:9300]'")]),
        ("::: [n1][id1][inet[/10.0.0.1:9300]]x}\n", [(1, "unknown in a node's header: 'x}'")]),
        (HEADER.replace("{a=b}", "{some thing}") + SAMPLING, [(1, "unknown in a node's header: 'some thing'")]),
        (":::\n" + SAMPLING, [(1, "a node's header that is not complete")]),
        (HEADER, [(1, "no 'Hot threads at' line follows this node's header")]),
        (HEADER + SAMPLING[:-3], [(2, "a 'Hot threads at' line that is not complete")]),
        (HEADER + SAMPLING.replace("500ms", "soon"), [(2, "unknown in a 'Hot threads at' line: 'interval=soon'")]),
        (HEADER + SAMPLING[:35], [(2, "a 'Hot threads at' line that is not complete")]),
        (HEADER + SAMPLING.replace("=3", "=many"), [(2, "unknown in a 'Hot threads at' line: 'busiestThreads=many'")]),
        (HEADER + SAMPLING + SAMPLING, [(3, "a second 'Hot threads at' line")]),
        (THREAD[:20] + "\n" + STACK, [(1, "a thread's line that ends before the thread's name")]),
        (THREAD[:-3] + "\n" + STACK, [(1, "a thread's name without its closing quote")]),
        (THREAD[:-2] + "\n" + STACK + THREAD + STACK, [(1, "a thread's name without its closing quote")]),
        (THREAD.replace("cpu", "gpu") + STACK, [(1, "a thread's line in an unknown form")]),
        (THREAD, [(1, "the text ends before this thread's stack")]),
        (THREAD + STACK[:-6], [(2, "2 stack frames announced, 1 found"), (4, UNKNOWN)]),
        (THREAD + STACK + "       a.B.d(B.java:2)\n", [(5, "a stack frame beyond the end of its stack")]),
        (THREAD + UNIQUE + "...\n" + FRAME, [(3, UNKNOWN), (4, "a stack frame beyond the end of its stack")]),
        (THREAD + UNIQUE + "       B.java:1)\n", [(3, UNKNOWN)]),
        (STACK, [(1, "a stack without a thread"), (2, "a stack frame outside a stack")]),
        (HEADER + "~\n" + FREEBSD + "~\n" + FREEBSD, [(2, UNKNOWN), (4, UNKNOWN)]),
        (HEADER + SAMPLING + FREEBSD, [(3, UNKNOWN)]),
        (HEADER + SAMPLING.replace(" interval", "interval") + FREEBSD, [(3, UNKNOWN)]),
        ("hot_threads is not supported on FreeBSD", [(1, UNKNOWN)]),
        ("::: [n1][id1]\n" + THREAD + STACK + "not supported\n", [(6, UNKNOWN)]),
        ("<html>\n<body>\n", [(1, UNKNOWN)]),
        ('{"error": "no"}', [(1, UNKNOWN)]),
    ],
)  # fmt: skip
def test_line_that_is_not_understood_is_told(text: str, expected: list[tuple[int, str]]) -> None:
    report = parse(text)
    assert remarks(report) == expected
    assert report.render() == text


@pytest.mark.parametrize("text", ["", "\n", "  \r\n\n", "   "])
def test_blank_text_is_a_report_of_nothing(text: str) -> None:
    report = parse(text)
    assert (report.nodes, report.unparsed, report.render()) == ((), (), text)


def test_a_page_instead_of_a_report_stands_under_a_nameless_node() -> None:
    report = parse("\n<html>\n\n  <p>Log in</p>\n</html>\n\n")
    assert [(node.name, node.header, node.threads) for node in report.nodes] == [(None, None, ())]
    (found,) = report.unparsed
    assert (found.line, found.text) == (2, "<html>\n\n  <p>Log in</p>\n</html>")


@pytest.mark.long
def test_remarks_beyond_those_that_anyone_reads_are_one_in_the_end() -> None:
    text = "~\n       a.B.c(B.java:1)\n" * 6_000 + REPORT + "~\n"
    report = parse(text)
    assert report.render() == text
    *told, rest = report.unparsed
    assert [found.line for found in told] == list(range(1, 10_000))
    assert (rest.line, rest.text.endswith("~"), rest.reason) == (
        10_000,
        True,
        "much between here and the end of these lines",
    )
    assert rest.text.count("\n") == text.count("\n") - 10_000


def test_a_stack_longer_than_any_of_java_s_is_read_whole() -> None:
    frames = [f"a.B.c{number}(B.java:1)" for number in range(20_000)]
    text = THREAD + UNIQUE + "".join(f"       {frame}\n" for frame in frames)
    report = parse(text)
    assert report.render() == text
    assert report.unparsed == ()
    assert list(report.nodes[0].threads[0].groups[0].frames) == frames


def test_slots_of_a_cut_header_are_those_that_are_closed() -> None:
    (node,) = parse(HEADER.partition(".0.0.1:9300}")[0]).nodes
    assert (node.name, node.ephemeral_id, node.host, node.address) == (
        "n1",
        "Z3cR9pLkTgyW4vHs8uNeJA",
        "es1",
        None,
    )


def test_a_section_that_lost_its_header_is_not_taken_for_the_node_before() -> None:
    report = parse(REPORT + REPORT.removeprefix(HEADER))
    assert [(node.name, len(node.threads)) for node in report.nodes] == [("n1", 1), ("n1", 1)]


def test_blank_lines_before_two_sections_without_headers_are_kept() -> None:
    text = "\n" + THREAD + SAMPLING
    report = parse(text)
    assert [len(node.threads) for node in report.nodes] == [1, 0]
    assert (report.source, report.render()) == ("\n", text)


def test_a_thread_of_unknown_form_keeps_its_stacks() -> None:
    report = parse(REPORT + THREAD.replace("(50ms out of 500ms)", "[gpu=10.0%]") + STACK)
    last = report.nodes[0].threads[-1]
    assert (last.kind, last.percent, last.pool, len(last.groups)) == (None, None, "search", 1)


def test_an_unknown_line_stays_where_it_stood() -> None:
    report = parse(REPORT.replace("       a.B.d", "  (elided)\n       a.B.d"))
    (group,) = report.nodes[0].threads[0].groups
    assert group.frames == ("a.B.c(B.java:1)", "a.B.d(B.java:2)")
    assert "  (elided)\n" in group.source
    assert [(found.line, found.text, found.reason) for found in report.unparsed] == [(7, "  (elided)", UNKNOWN)]


@given(
    st.one_of(
        st.text(),
        st.lists(st.sampled_from(PIECES)).map("".join),
        st.lists(st.sampled_from(PIECES) | st.text()).map("".join),
    )
)
@example("::: {\ud800}\n")
@example("1.0% (" + THREAD)
@example("10/10 snapshots sharing following " * 2 + HEADER)
def test_any_text_comes_back_whole(text: str) -> None:
    report = parse(text)
    assert report.render() == text
    assert [found.line for found in report.unparsed] == sorted(found.line for found in report.unparsed)
    # Of a text in a wrapping, here lines broken at blanks, remarks are of what is in it.
    plain = report.plain_text()
    assert all(found.text in plain and found.reason for found in report.unparsed)
    report.to_dict()


def test_report_cut_at_any_sign_says_so_unless_it_could_have_ended_there() -> None:
    text = REPORT + THREAD + UNIQUE + FRAME
    complete = [REPORT[: REPORT.index(THREAD)], REPORT, REPORT + THREAD + UNIQUE, text]
    could_end = {part.rstrip() for part in ["", *complete]}
    for length in range(len(text)):
        part = text[:length]
        report = parse(part)
        assert report.render() == part
        assert (report.unparsed == ()) == (part.rstrip() in could_end), part
