"""What is hot, added up: stacks as lines with weights, sums over pools and nodes, and changes between reports."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.comparison import Comparison, Heat, compare
from airflow_provider_mediaops.cluster.folded import NO_STACK, Measure, folded, measures, method_of, on_one_line
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.unit.hot_threads_text import ATTACKS, cpu, hostile, section, split, stack, thread, unique

FRAME = "a.B.c(B.java:1)"
STACK = stack(10, FRAME)


def read(text: str) -> list[tuple[list[str], int]]:
    """Read folded stacks as the strictest of tools does: frames, one blank, a whole number above zero."""
    read = []
    for line in text.encode().decode("utf-8", "strict").split("\n")[:-1]:
        stack, blank, weight = line.rpartition(" ")
        assert blank
        assert re.fullmatch("[1-9][0-9]*", weight)
        assert line.isprintable()
        frames = stack.split(";")
        assert all(frames)
        read.append((frames, int(weight)))
    assert text == "" or text.endswith("\n")
    return read


def unescape(written: str) -> str:
    return str(ast.literal_eval("'" + written.replace("'", r"\'") + "'"))


def fold(*texts: str) -> list[str]:
    reports = [parse(text) for text in texts]
    return folded(reports, measures(reports)).splitlines()


class TestLines:
    def test_node_pool_and_thread_come_first_and_the_innermost_frame_last(self) -> None:
        text = section(
            "n1", thread("opensearch[n1][search][T#1]", cpu(50.0), stack(10, "a.B.top(B.java:1)", "a.B.run(B.java:9)"))
        )
        assert fold(text) == ["n1;search;opensearch[n1][search][T#1];a.B.run(B.java:9);a.B.top(B.java:1) 500"]

    def test_equal_stacks_are_one_line_where_the_first_stood(self) -> None:
        same = stack(4, "a.B.c(B.java:1)")
        text = section("n1", thread("t", cpu(10.0), same, stack(2, "a.B.d(B.java:1)"), same))
        assert fold(text) == ["n1;t;t;a.B.c(B.java:1) 80", "n1;t;t;a.B.d(B.java:1) 20"]

    def test_several_reports_add_up(self) -> None:
        text = section("n1", thread("t", cpu(10.0), stack(10, "a.B.c(B.java:1)")))
        assert fold(text, text, text) == ["n1;t;t;a.B.c(B.java:1) 300"]

    @pytest.mark.parametrize(
        ("name", "pool"),
        [
            ("C2 CompilerThread0", "C2 CompilerThread"),
            ("Attach Listener", "Attach Listener"),
            ("pool-3-thread-12", "pool-3-thread"),
            ("Lucene Merge Thread #7", "Lucene Merge Thread"),
            ("12", "(no name)"),
            ("elasticsearch[n1][[idx][3]: Lucene Merge Thread #1115]", "Lucene Merge Thread"),
        ],
    )
    def test_a_thread_in_no_pool_is_with_its_like(self, name: str, pool: str) -> None:
        assert fold(section("n1", thread(name, cpu(10.0), unique()))) == [f"n1;{pool};{name} 10"]

    def test_text_without_a_header_or_names_says_so(self) -> None:
        lines = fold(thread("", cpu(10.0), unique("a.B.c(B.java:1)")))
        assert lines == ["(no node);(no name);(no name);a.B.c(B.java:1) 10"]


class TestWeights:
    @pytest.mark.parametrize(
        ("share", "snapshots", "weight"), [(96.1, 10, 961), (96.1, 8, 769), (0.1, 1, 1), (0.1, 10, 1), (394.6, 2, 789)]
    )
    def test_share_times_snapshots_and_never_less_than_one(self, share: float, snapshots: int, weight: int) -> None:
        text = section("n1", thread("t", cpu(share), stack(snapshots, "a.B.c(B.java:1)")))
        assert fold(text) == [f"n1;t;t;a.B.c(B.java:1) {weight}"]

    @pytest.mark.parametrize(
        ("threads", "lines"),
        [
            pytest.param(
                [thread("a", split(100, 4.3, other=95.7), STACK), thread("b", split(0, 0, idle=100), STACK)],
                [f"a;a;{FRAME} 43"],
                id="other and idle time weighs nothing",
            ),
            pytest.param(
                [thread("a", cpu(0.0), STACK), thread("b", cpu(-3.0), STACK), thread("c", cpu(1.0), STACK)],
                [f"c;c;{FRAME} 10"],
                id="a thread that used nothing beside others is left out",
            ),
            pytest.param(
                [thread("a", "NaN% (0s out of 500ms) cpu usage", STACK), thread("b", cpu(30.0), STACK)],
                [f"a;a;{FRAME} 10", f"b;b;{FRAME} 300"],
                id="a share that is not told counts as one percent",
            ),
            pytest.param(
                [thread("a", cpu(50.0)), thread("b", cpu(20.0), stack(3, FRAME, total=20))],
                ["a;a 1000", f"b;b;{FRAME} 60"],
                id="a thread whose stacks are missing weighs as the others",
            ),
        ],
    )
    def test_stack_weighs_the_cpu_of_its_thread(self, threads: list[str], lines: list[str]) -> None:
        assert fold(section("n1", *threads)) == [f"n1;{line}" for line in lines]

    @pytest.mark.parametrize("kind", ["wait", "block", "cpu"])
    def test_where_nothing_is_measured_snapshots_count(self, kind: str) -> None:
        usage = f"0.0% (0s out of 500ms) {kind} usage"
        text = section("n1", thread("t", usage, stack(7, FRAME), unique("a.B.d(B.java:1)")))
        assert fold(text) == [f"n1;t;t;{FRAME} 7", "n1;t;t;a.B.d(B.java:1) 1"]

    def test_memory_weighs_its_bytes(self) -> None:
        text = section("n1", thread("t", "1.5kb memory allocated", stack(2, "a.B.c(B.java:1)")))
        assert measures([parse(text)]) == (Measure("mem", "bytes"),)
        assert fold(text) == ["n1;t;t;a.B.c(B.java:1) 3072"]

    def test_kinds_are_not_mixed(self) -> None:
        one = section("n1", thread("t", cpu(50.0), STACK), thread("s", cpu(2.0), STACK))
        other = section("n1", thread("t", "2kb memory allocated", STACK))
        assert measures([parse(one), parse(other)]) == (Measure("cpu", "percent"), Measure("mem", "bytes"))
        assert fold(one, other) == [f"cpu;n1;t;t;{FRAME} 500", f"cpu;n1;s;s;{FRAME} 20", f"mem;n1;t;t;{FRAME} 20480"]


class TestNames:
    def test_an_attack_in_every_name(self) -> None:
        report = parse(hostile())
        lines = read(folded([report], measures([report])))
        assert len(lines) == 2 * len(ATTACKS)
        found = {unescape(frame) for frames, _ in lines for frame in frames}
        assert {node.name for node in report.nodes} <= found
        assert {one.name for node in report.nodes for one in node.threads} <= found

    @pytest.mark.parametrize(
        ("text", "written"),
        [
            ("a;b", r"a\x3bb"),
            ("a\nb\r\tc", r"a\nb\r\tc"),
            ("a\\x3b", r"a\\x3b"),
            ("größe", "größe"),
            (b"\xffa".decode("utf-8", "surrogateescape"), r"\udcffa"),
            ("\ud800\u2028\x85\U000e0001", r"\ud800\u2028\x85\U000e0001"),
        ],
    )
    def test_sign_that_would_break_a_line_is_written_by_its_number(self, text: str, written: str) -> None:
        assert on_one_line(text) == written

    @given(st.text(st.characters()))
    def test_every_text_can_be_had_back(self, text: str) -> None:
        written = on_one_line(text)
        written.encode()
        assert ";" not in written
        assert written.isprintable()
        assert unescape(written) == text


def compared(*texts: str) -> Comparison:
    return compare([parse(text) for text in texts])


def amounts(heats: list[Heat]) -> dict[str, list[float | None]]:
    return {heat.name: [None if amount is None else round(amount, 6) for amount in heat.amounts] for heat in heats}


def search(node: str, number: int, share: float, *stacks: str) -> str:
    return thread(f"opensearch[{node}][search][T#{number}]", cpu(share), *stacks)


class TestSums:
    def test_pools_add_up_over_threads_and_nodes_and_the_hottest_is_first(self) -> None:
        found = compared(
            section("n1", thread("opensearch[n1][write][T#1]", cpu(60.0)), search("n1", 1, 40.0), search("n1", 2, 30.5))
            + section("n2", search("n2", 1, 20.0))
            + section("n3")
        )
        assert found.measure == Measure("cpu", "percent")
        pools = [(heat.name, heat.amounts, heat.threads, heat.nodes) for heat in found.pools]
        assert pools == [("search", [90.5], 3, ("n1", "n2")), ("write", [60.0], 1, ("n1",))]
        nodes = [(heat.name, heat.amounts, heat.threads) for heat in found.nodes]
        assert nodes == [("n1", [130.5], 3), ("n2", [20.0], 1), ("n3", [0.0], 0)]
        threads = [(one.peak, one.nodes) for one in found.threads]
        assert threads[:2] == [(60.0, ("n1",)), (40.0, ("n1",))]
        assert [one.name for one in found.threads][-1] == "opensearch[n2][search][T#1]"

    def test_a_top_frame_has_the_part_that_its_snapshots_give_it(self) -> None:
        found = compared(
            section(
                "n1",
                search("n1", 1, 50.0, stack(6, "a.B.c(B.java:1)", "x.Y.z(Y.java:1)"), stack(2, "a.B.c(B.java:2)")),
                search("n1", 2, 20.0, stack(5, "a.B.d(B.java:1)", total=5)),
            )
        )
        assert amounts(found.methods) == {"a.B.c": [40.0], "a.B.d": [20.0]}
        assert [heat.threads for heat in found.methods] == [1, 1]

    def test_unique_snapshots_are_parts_of_one_another(self) -> None:
        stacks = (unique("a.B.c(B.java:1)"), unique("a.B.d(B.java:1)"), unique())
        found = compared(section("n1", search("n1", 1, 60.0, *stacks)))
        assert amounts(found.methods) == {"a.B.c": [20.0], "a.B.d": [20.0], NO_STACK: [20.0]}

    def test_a_thread_is_where_it_was_most_often(self) -> None:
        frames = stack(3, "a.B.c(B.java:1)"), stack(7, "a.B.d(B.java:1)")
        found = compared(
            section("n1", search("n1", 1, 60.0, *frames), search("n1", 2, 50.0), search("n1", 3, 4.0, unique()))
        )
        assert [one.method for one in found.threads] == ["a.B.d", NO_STACK, NO_STACK]


class TestThreads:
    def test_a_thread_is_shown_as_where_it_was_hottest(self) -> None:
        cool, hot = (
            section("n1", thread("t", f"99% [cpu={cpu}%, other={other}%] (1s out of 2s) cpu usage", unique(frame)))
            for cpu, other, frame in ((10.0, 80.0, "a.B.cool(B.java:1)"), (25.0, 70.0, "a.B.hot(B.java:1)"))
        )
        for texts in ((cool, hot), (hot, cool)):
            (one,) = compared(*texts).threads
            assert (one.peak, one.method, one.other_percent) == (25.0, "a.B.hot", 70.0)

    def test_threads_of_one_name_on_two_nodes_are_two(self) -> None:
        one = thread("Attach Listener", cpu(5.0))
        found = compared(section("n1", one), section("n2", one)).threads
        assert [each.nodes for each in found] == [("n1",), ("n2",)]


@pytest.mark.parametrize(
    ("frame", "method"),
    [
        ("a.b.C$D.m(F.java:12)", "a.b.C$D.m"),
        ("java.base@17.0.4/java.lang.Thread.run(Thread.java:833)", "java.lang.Thread.run"),
        ("app//org.x.Y.<init>(Y.java:1)", "org.x.Y.<init>"),
        ("app/org.elasticsearch.server@9.1.0/org.x.Y.m(Native Method)", "org.x.Y.m"),
        ("org.x.Y$$Lambda$5664/0x0000000801.get(Unknown Source)", "org.x.Y$$Lambda.get"),
        ("app//org.x.Y$$Lambda/0x00007f1c.run(Unknown Source)", "org.x.Y$$Lambda.run"),
        ("org.x.PainlessScript$Script.execute( ...:46)", "org.x.PainlessScript$Script.execute"),
        ("(nothing before it)", "(nothing before it)"),
    ],
)
def test_a_method_is_named_the_same_everywhere(frame: str, method: str) -> None:
    assert method_of(frame) == method
