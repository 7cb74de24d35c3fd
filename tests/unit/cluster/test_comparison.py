"""What is hot, added up, and what changed between reports."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.cluster.comparison import NO_STACK, WAITING, Comparison, Heat, compare, method_of
from airflow_provider_mediaops.cluster.folded import Measure
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.unit.hot_threads_text import cpu, section, split, stack, thread, unique


def compared(*texts: str) -> Comparison:
    return compare([parse(text) for text in texts])


def amounts(heats: tuple[Heat, ...]) -> dict[str, list[float | None]]:
    return {heat.name: [None if amount is None else round(amount, 6) for amount in heat.amounts] for heat in heats}


def search(node: str, number: int, share: float, *stacks: str) -> str:
    return thread(f"opensearch[{node}][search][T#{number}]", cpu(share), *stacks)


class TestOneReport:
    def test_pools_add_up_over_threads_and_nodes_and_the_hottest_is_first(self) -> None:
        found = compared(
            section("n1", thread("opensearch[n1][write][T#1]", cpu(60.0)), search("n1", 1, 40.0), search("n1", 2, 30.5))
            + section("n2", search("n2", 1, 20.0))
            + section("n3")
        )
        assert found.measure == Measure("cpu", "percent")
        assert found.pools == (
            Heat(name="search", amounts=(90.5,), threads=3, nodes=("n1", "n2")),
            Heat(name="write", amounts=(60.0,), threads=1, nodes=("n1",)),
        )
        assert [(heat.name, heat.amounts, heat.threads) for heat in found.nodes] == [
            ("n1", (130.5,), 3),
            ("n2", (20.0,), 1),
            ("n3", (0.0,), 0),
        ]
        assert [(one.heat.name, one.heat.peak, one.heat.nodes, one.pool) for one in found.threads] == [
            ("opensearch[n1][write][T#1]", 60.0, ("n1",), "write"),
            ("opensearch[n1][search][T#1]", 40.0, ("n1",), "search"),
            ("opensearch[n1][search][T#2]", 30.5, ("n1",), "search"),
            ("opensearch[n2][search][T#1]", 20.0, ("n2",), "search"),
        ]

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
        found = compared(
            section("n1", search("n1", 1, 60.0, unique("a.B.c(B.java:1)"), unique("a.B.d(B.java:1)"), unique()))
        )
        assert amounts(found.methods) == {"a.B.c": [20.0], "a.B.d": [20.0], NO_STACK: [20.0]}

    def test_a_thread_is_where_it_was_most_often(self) -> None:
        frames = stack(3, "a.B.c(B.java:1)"), stack(7, "a.B.d(B.java:1)")
        found = compared(
            section("n1", search("n1", 1, 60.0, *frames), search("n1", 2, 50.0), search("n1", 3, 4.0, unique()))
        )
        assert [one.method for one in found.threads] == ["a.B.d", NO_STACK, NO_STACK]

    def test_other_and_idle_time_is_no_cpu(self) -> None:
        found = compared(
            section(
                "n1",
                thread("es[n1][transport_worker][T#1]", split(100.0, 4.3, other=95.7), stack(10, "a.B.wait(B.java:1)")),
                thread("es[n1][transport_worker][T#2]", split(0.5, 0.5, idle=99.5), stack(10, "a.B.wait(B.java:1)")),
                thread("es[n1][write][T#1]", split(59.6, 17.9, other=41.7), stack(10, "a.B.work(B.java:1)")),
            )
        )
        assert [(one.heat.name, one.heat.peak) for one in found.threads] == [
            ("es[n1][write][T#1]", 17.9),
            ("es[n1][transport_worker][T#1]", 4.3),
            ("es[n1][transport_worker][T#2]", 0.5),
        ]
        assert amounts(found.methods) == {"a.B.work": [17.9], "a.B.wait": [4.8]}
        assert amounts(found.nodes) == {"n1": [22.7]}

    def test_threads_without_a_figure_are_counted(self) -> None:
        found = compared(
            section(
                "n1",
                search("n1", 1, 60.0),
                thread("t", "NaN% (0s out of 500ms) cpu usage"),
                thread("s", "1kb memory allocated"),
            )
        )
        assert (found.without_figure, found.left_out) == (1, 1)
        assert amounts(found.nodes) == {"n1": [61.0]}

    def test_where_nothing_is_measured_threads_are_counted(self) -> None:
        usage = "0.0% (0s out of 500ms) wait usage"
        found = compared(section("n1", thread("a-1", usage, stack(5, "a.B.c(B.java:1)")), thread("a-2", usage)))
        assert found.measure == Measure("wait", "threads")
        assert amounts(found.pools) == {"a": [2.0]}
        assert amounts(found.methods) == {NO_STACK: [1.0], "a.B.c": [0.5]}
        assert found.without_figure == 0

    def test_nothing_at_all(self) -> None:
        found = compared("")
        assert (found.pools, found.methods, found.nodes, found.threads) == ((), (), (), ())


class TestSeveralReports:
    FIRST = section(
        "n1", search("n1", 1, 40.0, unique("a.B.old(B.java:1)")), search("n1", 2, 10.0, unique("a.B.both(B.java:1)"))
    )
    BETWEEN = section("n1", search("n1", 3, 90.0, unique("a.B.passing(B.java:1)")))
    LAST = section(
        "n1", search("n1", 2, 25.0, unique("a.B.both(B.java:1)")), search("n1", 4, 5.0, unique("a.B.new(B.java:1)"))
    )

    def test_amounts_stand_side_by_side(self) -> None:
        found = compared(self.FIRST, self.BETWEEN, self.LAST)
        assert amounts(found.pools) == {"search": [50.0, 90.0, 30.0]}
        assert amounts(found.methods) == {
            "a.B.passing": [None, 90.0, None],
            "a.B.old": [40.0, None, None],
            "a.B.both": [10.0, None, 25.0],
            "a.B.new": [None, None, 5.0],
        }
        assert found.pools[0].threads == 4

    def test_comparison_says_which_came_went_and_changed(self) -> None:
        found = compared(self.FIRST, self.BETWEEN, self.LAST)
        assert {
            one.heat.name[-5:]: (one.heat.difference, one.heat.is_new, one.heat.is_gone) for one in found.threads
        } == {
            "[T#3]": (0.0, False, False),
            "[T#1]": (-40.0, False, True),
            "[T#2]": (15.0, False, False),
            "[T#4]": (5.0, True, False),
        }

    def test_a_thread_is_shown_as_where_it_was_hottest(self) -> None:
        cool, hot = (
            section("n1", thread("t", f"99% [cpu={cpu}%, other={other}%] (1s out of 2s) cpu usage", unique(frame)))
            for cpu, other, frame in ((10.0, 80.0, "a.B.cool(B.java:1)"), (25.0, 70.0, "a.B.hot(B.java:1)"))
        )
        for texts in ((cool, hot), (hot, cool)):
            (one,) = compared(*texts).threads
            assert (one.heat.peak, one.method, one.other_percent) == (25.0, "a.B.hot", 70.0)

    def test_threads_of_one_name_on_two_nodes_are_two(self) -> None:
        one = thread("Attach Listener", cpu(5.0))
        assert [one.heat.nodes for one in compared(section("n1", one), section("n2", one)).threads] == [
            ("n1",),
            ("n2",),
        ]


@pytest.mark.parametrize(
    ("frame", "method"),
    [
        ("a.b.C$D.m(F.java:12)", "a.b.C$D.m"),
        ("java.base@17.0.4/java.lang.Thread.run(Thread.java:833)", "java.lang.Thread.run"),
        ("app//org.x.Y.<init>(Y.java:1)", "org.x.Y.<init>"),
        ("app/org.elasticsearch.server@9.1.0/org.x.Y.m(Native Method)", "org.x.Y.m"),
        ("org.x.Y$$Lambda$5664/0x0000000801.get(Unknown Source)", "org.x.Y$$Lambda.get"),
        ("app//org.x.Y$$Lambda/0x00007f1c.run(Unknown Source)", "org.x.Y$$Lambda.run"),
        (
            "org.opensearch.painless.PainlessScript$Script.execute( ...:46)",
            "org.opensearch.painless.PainlessScript$Script.execute",
        ),
        ("(nothing before it)", "(nothing before it)"),
    ],
)
def test_a_method_is_named_the_same_everywhere(frame: str, method: str) -> None:
    assert method_of(frame) == method


def test_frames_in_which_threads_wait_are_known() -> None:
    waits = ["java.base@17.0.15/jdk.internal.misc.Unsafe.park(Native Method)", "sun.misc.Unsafe.park(Native Method)"]
    assert {method_of(frame) for frame in waits} <= WAITING
    assert method_of("a.B.park(B.java:1)") not in WAITING
