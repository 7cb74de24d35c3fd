"""Texts that are cut, edited, pieces, or no report: nothing raised, nothing lost, and a word on all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.unit.cluster.hot_threads.short_texts import HEADER, REPORT, SAMPLING, STACK, THREAD, UNIQUE
from tests.unit.hot_threads_text import cpu, section, stack, thread

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

PROMPT = "$ curl -s localhost:9200/_nodes/hot_threads\n"
CALL = "a.B.c(B.java:1)"
FRAME = f"       {CALL}\n"
FREEBSD = "   hot_threads is not supported on FreeBSD\n"

# Words by which the lines of a report are known, so that arbitrary text comes near to one.
PIECES = [
    *":{}[]'\n\r #=,().%\x85",
    *(":::", "\r\n", "  ", "inet[/", " by thread '", "Hot threads at ", "interval=500ms", "unique snapshot"),
    *("cpu usage", "memory allocated", "9" * 5000, "10/10 snapshots sharing following ", " elements", "1.0% ("),
    *(" out of ", "500ms", "a.b.C.d(E.java:1)", "not supported", HEADER, SAMPLING, THREAD, STACK),
]


def rendered(text: str) -> HotThreadsReport:
    """Return the report of a text, which comes back whole."""
    report = parse(text)
    assert report.render() == text
    return report


def remarks(report: HotThreadsReport) -> list[tuple[int, str]]:
    return [(found.line, found.reason) for found in report.unparsed]


UNKNOWN = "not a line of a hot-threads report"
TOO_FEW = "3 stack frames announced, 2 found"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEADER[:30], [(1, "a node's header that is not complete")]),
        ("::: [n1][id1][es1][inet[/10.0\n", [(1, "a node's header that is not complete")]),
        ("::: [n1][id1][inet[/10.0.0.1:9300]\n", [(1, "unknown in a node's header: '[inet[/10.0.0.1:9300]'")]),
        ("::: [n1][id1][inet[/10.0.0.1:9300]]x}\n", [(1, "unknown in a node's header: 'x}'")]),
        (HEADER.replace("{a=b}", "{some thing}") + SAMPLING, [(1, "unknown in a node's header: 'some thing'")]),
        (":::\n" + SAMPLING, [(1, UNKNOWN)]),
        (HEADER, [(1, "no 'Hot threads at' line follows this node's header")]),
        (HEADER + SAMPLING[:-3], [(2, "a 'Hot threads at' line that is not complete")]),
        (HEADER + SAMPLING.replace("ignoreIdleThreads", "x"), [(2, "unknown in a 'Hot threads at' line: 'x=true'")]),
        (HEADER + SAMPLING[:35], [(2, "a 'Hot threads at' line that is not complete")]),
        (HEADER + SAMPLING + SAMPLING, [(3, "a second 'Hot threads at' line")]),
        (THREAD[:20] + "\n" + STACK, [(1, "a thread's line that ends before the thread's name")]),
        (THREAD[:-3] + "\n" + STACK, [(1, "a thread's name without its closing quote")]),
        (THREAD[:-2] + "\n" + STACK + THREAD + STACK, [(1, "a thread's name without its closing quote")]),
        (THREAD.replace("cpu", "gpu") + STACK, [(1, "a thread's line in an unknown form")]),
        (THREAD, [(1, "the text ends before this thread's stack")]),
        (THREAD + "~\n" + FRAME + STACK, [(2, UNKNOWN), (3, "a stack frame outside a stack")]),
        (2 * (THREAD + STACK.replace("2 el", "3 el")), [(2, TOO_FEW), (6, TOO_FEW)]),
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
    assert remarks(rendered(text)) == expected


@pytest.mark.parametrize("text", ["", "\n", "  \r\n\n", "   "])
def test_blank_text_is_a_report_of_nothing(text: str) -> None:
    report = rendered(text)
    assert (report.nodes, report.unparsed) == ((), ())


def test_a_page_instead_of_a_report_stands_under_a_nameless_node() -> None:
    report = parse("\n<html>\n\n  <p>Log in</p>\n</html>\n\n")
    assert [(node.name, node.header, node.threads) for node in report.nodes] == [(None, None, ())]
    (found,) = report.unparsed
    assert (found.line, found.text) == (2, "<html>\n\n  <p>Log in</p>\n</html>")


@pytest.mark.long
def test_remarks_beyond_those_that_anyone_reads_are_one_in_the_end() -> None:
    text = "~\n       a.B.c(B.java:1)\n" * 6_000 + REPORT + "~\n"
    *told, rest = rendered(text).unparsed
    assert [found.line for found in told] == list(range(1, 10_000))
    assert (rest.line, rest.reason) == (10_000, "much between here and the end of these lines")
    assert rest.text.endswith("~")
    assert rest.text.count("\n") == text.count("\n") - 10_000


def test_slots_of_a_cut_header_are_those_that_are_closed() -> None:
    (node,) = parse(HEADER.partition(".0.0.1:9300}")[0]).nodes
    assert (node.name, node.host, node.address) == ("n1", "es1", None)


def test_a_section_that_lost_its_header_is_not_taken_for_the_node_before() -> None:
    report = parse(REPORT + REPORT.removeprefix(HEADER))
    assert [(node.name, len(node.threads)) for node in report.nodes] == [("n1", 1), ("n1", 1)]


def test_a_stack_that_begins_like_one_before_is_read_to_its_own_end() -> None:
    frame = "       org.opensearch.search.query.QueryPhase.execute(QueryPhase.java:157)\n"
    of_two, unique = STACK.splitlines(keepends=True)[0] + 2 * frame, UNIQUE + 2 * frame
    stacks = [of_two, of_two + "   \n", of_two + frame, unique, unique, unique + frame]
    report = rendered("".join(THREAD + stack for stack in stacks))
    assert [len(thread.groups[0].frames) for thread in report.nodes[0].threads] == [2, 2, 2, 2, 2, 3]
    assert remarks(report) == [(14, "a stack frame beyond the end of its stack")]


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


@pytest.mark.long
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
    report = rendered(text)
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
        report = rendered(part)
        assert (report.unparsed == ()) == (part.rstrip() in could_end), part


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        *((text, False) for text in ("", "\n", "hello world", "<html>\n", PROMPT, ":::\n", FRAME)),
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


@pytest.mark.parametrize("before", [PROMPT, "\n" + PROMPT + "\n", "node1> GET hot_threads\n\n~\n", f"{CALL}\n"])
@pytest.mark.parametrize("piece", [section("n1", thread("t", cpu(10.0), stack(10, CALL))), thread("[n1]", cpu(1.0))])
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
