"""Folded stacks: what a line holds, what it weighs, and that whatever a cluster sends stays one line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.folded import Measure, folded, measures, on_one_line
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.unit.hot_threads_text import ATTACKS, cpu, hostile, section, split, stack, thread, unique

ESCAPE = re.compile(r"\\(?:\\|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


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
    def sign(match: re.Match[str]) -> str:
        if match[0] == r"\\":
            return "\\"
        number = int(match[1] or match[2] or match[3], 16)
        return chr(number + 0xDC00) if match[1] and number > 0x7F else chr(number)

    return ESCAPE.sub(sign, written)


def fold(*texts: str) -> list[str]:
    return folded([parse(text) for text in texts]).splitlines()


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

    def test_text_without_a_header(self) -> None:
        assert fold(thread("", cpu(10.0), unique("a.B.c(B.java:1)"))) == [
            "(no node);(no name);(no name);a.B.c(B.java:1) 10"
        ]

    def test_nothing_hot_is_nothing_written(self) -> None:
        assert fold("", section("n1")) == []


class TestWeights:
    @pytest.mark.parametrize(
        ("share", "snapshots", "weight"), [(96.1, 10, 961), (96.1, 8, 769), (0.1, 1, 1), (0.1, 10, 1), (394.6, 2, 789)]
    )
    def test_share_times_snapshots_and_never_less_than_one(self, share: float, snapshots: int, weight: int) -> None:
        text = section("n1", thread("t", cpu(share), stack(snapshots, "a.B.c(B.java:1)")))
        assert fold(text) == [f"n1;t;t;a.B.c(B.java:1) {weight}"]

    def test_other_and_idle_time_weighs_nothing(self) -> None:
        frame = "a.B.c(B.java:1)"
        one = thread("one", split(100.0, 4.3, other=95.7), stack(10, frame))
        two = thread("two", split(0.0, 0.0, idle=100.0), stack(10, frame))
        assert fold(section("n1", one, two)) == [f"n1;one;one;{frame} 43"]

    @pytest.mark.parametrize("share", ["0.0%", "-3.0%"])
    def test_thread_that_used_nothing_beside_others_is_left_out(self, share: str) -> None:
        idle = thread("idle", f"{share} (0s out of 500ms) cpu usage", stack(10, "a.B.c(B.java:1)"))
        busy = thread("busy", cpu(1.0), stack(10, "a.B.c(B.java:1)"))
        assert fold(section("n1", idle, busy)) == ["n1;busy;busy;a.B.c(B.java:1) 10"]

    @pytest.mark.parametrize("kind", ["wait", "block", "cpu"])
    def test_where_nothing_is_measured_snapshots_count(self, kind: str) -> None:
        usage = f"0.0% (0s out of 500ms) {kind} usage"
        text = section("n1", thread("t", usage, stack(7, "a.B.c(B.java:1)"), unique("a.B.d(B.java:1)")))
        assert fold(text) == ["n1;t;t;a.B.c(B.java:1) 7", "n1;t;t;a.B.d(B.java:1) 1"]

    def test_a_share_that_is_not_told_counts_as_one_percent(self) -> None:
        unknown = thread("u", "NaN% (0s out of 500ms) cpu usage", stack(10, "a.B.c(B.java:1)"))
        busy = thread("busy", cpu(30.0), stack(10, "a.B.c(B.java:1)"))
        assert fold(section("n1", unknown, busy)) == ["n1;u;u;a.B.c(B.java:1) 10", "n1;busy;busy;a.B.c(B.java:1) 300"]

    def test_memory_weighs_its_bytes(self) -> None:
        text = section("n1", thread("t", "1.5kb memory allocated", stack(2, "a.B.c(B.java:1)")))
        assert measures([parse(text)]) == (Measure("mem", "bytes"),)
        assert fold(text) == ["n1;t;t;a.B.c(B.java:1) 3072"]

    def test_kinds_are_not_mixed(self) -> None:
        frame = "a.B.c(B.java:1)"
        one = section("n1", thread("t", cpu(50.0), stack(10, frame)), thread("s", cpu(2.0), stack(10, frame)))
        other = section("n1", thread("t", "2kb memory allocated", stack(10, frame)))
        assert measures([parse(one), parse(other)]) == (Measure("cpu", "percent"), Measure("mem", "bytes"))
        assert fold(one, other) == [f"cpu;n1;t;t;{frame} 500", f"cpu;n1;s;s;{frame} 20", f"mem;n1;t;t;{frame} 20480"]

    def test_a_thread_whose_stacks_are_missing_weighs_as_the_others(self) -> None:
        text = section("n1", thread("t", cpu(50.0)), thread("s", cpu(20.0), stack(3, "a.B.c(B.java:1)", total=20)))
        assert fold(text) == ["n1;t;t 1000", "n1;s;s;a.B.c(B.java:1) 60"]
        assert fold(section("n1", thread("t", cpu(50.0)))) == ["n1;t;t 50"]


class TestNames:
    def test_an_attack_in_every_name(self) -> None:
        report = parse(hostile())
        lines = read(folded([report]))
        assert len(lines) == 2 * len(ATTACKS)
        found = {unescape(frame) for frames, _ in lines for frame in frames}
        assert {node.name for node in report.nodes} <= found
        assert {one.name for node in report.nodes for one in node.threads} <= found

    @pytest.mark.parametrize(
        ("text", "written"),
        [
            ("a;b", r"a\x3bb"),
            ("a\nb\r\tc", r"a\x0ab\x0d\x09c"),
            ("a\\x3b", r"a\\x3b"),
            ("größe", "größe"),
            (b"\xffa".decode("utf-8", "surrogateescape"), r"\xffa"),
            ("\ud800\u2028\x85\U000e0001", r"\ud800\u2028\u0085\U000e0001"),
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
