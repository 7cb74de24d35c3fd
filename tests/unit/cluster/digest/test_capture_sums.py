"""The sums of one capture, under names that mean the same in every run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.comparison import NO_STACK
from airflow_provider_mediaops.cluster.digest.capture_sums import (
    MOST_PLACES,
    CaptureSums,
    Row,
    stable_method,
    stable_methods,
    sums_of,
    task_rows,
)
from airflow_provider_mediaops.cluster.folded import Measure
from airflow_provider_mediaops.cluster.hot_threads import parse
from tests.unit.cluster.digest.captured_days import running
from tests.unit.hot_threads_text import cpu, section, stack, thread

if TYPE_CHECKING:
    from pathlib import Path


WAIT = "20.0% (100ms out of 500ms) wait usage"


def of(text: str) -> CaptureSums:
    return sums_of(parse(text), path="/r/a.txt", time=100.0)


@pytest.mark.parametrize(
    ("frame", "method"),
    [
        ("app//org.x.Y.run(Y.java:12)", "org.x.Y.run"),
        ("org.x.Y$$Lambda$5664/0x0000000801.get(Unknown Source)", "org.x.Y$$Lambda.get"),
        ("org.x.Y$$Lambda/0x00007f.get(Unknown Source)", "org.x.Y$$Lambda.get"),
        ("app//org.x.Y.lambda$run$3(Y.java:1)", "org.x.Y.lambda$run"),
        (
            "jdk.internal.reflect.GeneratedMethodAccessor12.invoke(Unknown Source)",
            "jdk.internal.reflect.GeneratedMethodAccessor.invoke",
        ),
        ("com.sun.proxy.$Proxy17.call(Unknown Source)", "com.sun.proxy.$Proxy.call"),
        ("org.x.Utf8.read2(Utf8.java:1)", "org.x.Utf8.read2"),
    ],
)
def test_part_of_a_frame_that_changes_from_run_to_run_is_dropped(frame: str, method: str) -> None:
    assert stable_method(frame) == method


def test_equal_threads_of_other_numbers_and_lines_are_one_stack() -> None:
    def report(number: int, line: int) -> str:
        frames = (f"org.x.A.a(A.java:{line})", f"org.x.B.lambda$b${number}(B.java:1)")
        return section("n", thread(f"opensearch[n][search][T#{number}]", cpu(40), stack(10, *frames)))

    one, other = of(report(1, 10)), of(report(7, 22))
    assert one.stacks == other.stacks == {("search", "org.x.B.lambda$b", "org.x.A.a"): 40.0}


def test_names_of_any_length_take_bounded_room() -> None:
    long = "x" * 100_000
    text = section(long, thread(f"opensearch[n][{long}][T#1]", cpu(40), stack(10, f"org.x.A.{long}(A.java:1)")))
    sums = of(text)
    names = [*sums.pools, *(part for path in sums.stacks for part in path), *sums.frames]
    names += [name for row in sums.frames.values() for name in (*row.pools, *row.nodes)]
    assert max(map(len, names)) <= 2_000
    assert names


def test_a_thread_without_a_stack_counts_as_one() -> None:
    sums = of(section("n", thread("opensearch[n][search][T#1]", cpu(30))))
    assert sums.frames[NO_STACK].amount == 30.0
    assert sums.stacks == {("search",): 30.0}


@pytest.mark.parametrize(
    ("usages", "measure", "amount"),
    [
        pytest.param([WAIT, WAIT, cpu(90)], Measure("wait", "percent"), 40.0, id="most frequent kind"),
        pytest.param(["1.5kb memory allocated"], Measure("mem", "bytes"), 1536.0, id="memory"),
        # OpenSearch prints 0.0 % for every wait.
        pytest.param(["0.0% (0s out of 500ms) wait usage"] * 2, Measure("wait", "threads"), 2.0, id="no figures"),
        pytest.param([cpu(0), cpu(0)], Measure("cpu", "percent"), 0.0, id="idle"),
        pytest.param([], Measure("cpu", "percent"), 0.0, id="no threads"),
    ],
)
def test_amounts_are_of_the_most_frequent_kind_in_one_unit(usages: list[str], measure: Measure, amount: float) -> None:
    sums = of(section("n", *(thread(f"a{number}", usage) for number, usage in enumerate(usages))))
    assert (sums.measure, sums.amount) == (measure, amount)


def test_a_very_deep_stack_is_its_ends() -> None:
    names = stable_methods(tuple(f"org.x.A.m{number}(A.java:1)" for number in range(5000)))
    assert len(names) == 251
    assert (names[0], names[-1]) == ("org.x.A.m0", "org.x.A.m4999")


@pytest.mark.parametrize("name", ["2.19.1-cpu", "3.8.0-cpu-with-idle-threads", "3.8.0-block", "3.8.0-wait"])
def test_the_parts_of_a_real_report_add_up(data: Path, name: str) -> None:
    sums = of((data / "hot_threads" / f"opensearch-{name}.txt").read_text())
    for parts in (sums.pools.values(), sums.stacks.values(), [row.amount for row in sums.frames.values()]):
        assert sum(parts) == pytest.approx(sums.amount)
    assert sums.amount > 0


def test_tasks_are_summed_up_over_nodes() -> None:
    both = running("a", "n1")
    both["nodes"] += running("a", "n2", longest_ms=1500.0, queued=1)["nodes"]
    key = ("indices:data/read/search", "a", "videos", '{"query":{"regexp":{"title":"?"}}}')
    places = ({"search": 1}, {"n1": 1, "n2": 1})
    row = Row(1, 5.0, 5.0, *places, running=4, queued=1, longest_ms=1500.0, cpu_ms=900.0)
    assert task_rows(both, 5.0) == {key: row}


@pytest.mark.parametrize("odd", [None, [1, {"nodes": 2}], {"nodes": [5, {"groups": 3}]}, running("a", queued="x")])
def test_tasks_of_another_shape_are_none(odd: Any) -> None:
    assert task_rows(odd, 5.0) == {}


def test_row_is_the_sum_of_its_captures() -> None:
    row = Row(1, 10.0, 10.0, {"search": 1}, {"n1": 1}, 2.0, 2, 1, 900.0, 450.0)
    row.merge(Row(1, 5.0, 5.0, {"search": 1, "write": 1}, {"n2": 1}, 3.0, 3, 0, 1200.0, 50.0))
    assert row == Row(2, 5.0, 10.0, {"search": 2, "write": 1}, {"n1": 1, "n2": 1}, 5.0, 5, 1, 1200.0, 500.0)


def test_the_names_of_the_places_of_a_row_are_bounded() -> None:
    row = Row()
    row.merge(Row(nodes={f"node-{each}": 1 for each in range(10 * MOST_PLACES)}))
    row.merge(Row(nodes={"node-0": 2, "late": 1}))
    assert len(row.nodes) == MOST_PLACES
    assert row.nodes["node-0"] == 3
