"""The sums of captures: of one under names that mean the same in every run, and of many in bounded room."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.cluster.digest.sums import (
    MOST_NAMED,
    MOST_PLACES,
    MOST_POOLS,
    MOST_ROWS,
    MOST_SPANS,
    MOST_STACKS,
    OTHER_POOLS,
    CaptureSums,
    Digest,
    ReadCapture,
    Row,
    Series,
    stable_methods,
)
from airflow_provider_mediaops.cluster.folded import NO_STACK, Measure
from tests.unit.cluster.digest.captured_days import (
    MONDAY,
    SEARCH,
    SORT,
    capture_at,
    digest_from,
    hot,
    running,
    sums_at,
    text_at,
)
from tests.unit.hot_threads_text import cpu, section, stack, thread

CPU = Measure("cpu", "percent")
HOUR = timedelta(hours=1)
WAIT = "20.0% (100ms out of 500ms) wait usage"


def test_threads_that_differ_in_numbers_and_lines_of_a_run_are_one_stack() -> None:
    def report(number: int, line: int) -> str:
        frames = (
            f"org.x.A.a(A.java:{line})",
            f"org.x.B.lambda$b${number}(B.java:1)",
            f"jdk.GeneratedMethodAccessor{number}.invoke(Unknown Source)",
            f"com.sun.proxy.$Proxy{number}.call(Unknown Source)",
            "org.x.Utf8.read2(Utf8.java:1)",
        )
        return section("n", thread(f"opensearch[n][search][T#{number}]", cpu(40), stack(10, *frames)))

    one, other = sums_at(MONDAY, report(1, 10)), sums_at(MONDAY, report(7, 22))
    names = ("com.sun.proxy.$Proxy.call", "jdk.GeneratedMethodAccessor.invoke", "org.x.B.lambda$b", "org.x.A.a")
    assert one.stacks == other.stacks == {("search", "org.x.Utf8.read2", *names): 40.0}


def test_names_of_any_length_take_bounded_room() -> None:
    long = "x" * 100_000
    text = section(long, thread(f"opensearch[n][{long}][T#1]", cpu(40), stack(10, f"org.x.A.{long}(A.java:1)")))
    sums = sums_at(MONDAY, text)
    names = [*sums.pools, *(part for path in sums.stacks for part in path), *sums.frames]
    names += [name for row in sums.frames.values() for name in (*row.pools, *row.nodes)]
    assert max(map(len, names)) <= 2_000
    assert names


def test_a_thread_without_a_stack_counts_as_one() -> None:
    sums = sums_at(MONDAY, section("n", thread("opensearch[n][search][T#1]", cpu(30))))
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
    sums = sums_at(MONDAY, section("n", *(thread(f"a{number}", usage) for number, usage in enumerate(usages))))
    assert (sums.measure, sums.amount) == (measure, amount)


def test_a_very_deep_stack_is_its_ends() -> None:
    names = stable_methods(tuple(f"org.x.A.m{number}(A.java:1)" for number in range(5000)))
    assert len(names) == 251
    assert (names[0], names[-1]) == ("org.x.A.m0", "org.x.A.m4999")


@pytest.mark.parametrize("name", ["2.19.1-cpu", "3.8.0-cpu-with-idle-threads", "3.8.0-block", "3.8.0-wait"])
def test_the_parts_of_a_real_report_add_up(data: Path, name: str) -> None:
    sums = sums_at(MONDAY, (data / "hot_threads" / f"opensearch-{name}.txt").read_text())
    for parts in (sums.pools.values(), sums.stacks.values(), [row.amount for row in sums.frames.values()]):
        assert sum(parts) == pytest.approx(sums.amount)
    assert sums.amount > 0


def test_tasks_are_summed_up_over_nodes() -> None:
    both = running("a", "n1")
    both["nodes"] += running("a", "n2", longest_ms=1500.0, queued=1)["nodes"]
    key = ("indices:data/read/search", "a", "videos", '{"query":{"regexp":{"title":"?"}}}')
    at, places = MONDAY.timestamp(), ({"search": 1}, {"n1": 1, "n2": 1})
    row = Row(1, at, at, *places, running=4, queued=1, longest_ms=1500.0, cpu_ms=900.0)
    assert sums_at(MONDAY, "", running_tasks=both).tasks == {key: row}


@pytest.mark.parametrize("odd", [None, [1, {"nodes": 2}], {"nodes": [5, {"groups": 3}]}, running("a", queued="x")])
def test_tasks_of_another_shape_are_none(odd: Any) -> None:
    assert sums_at(MONDAY, "", running_tasks=odd).tasks == {}


def test_row_is_the_sum_of_its_captures() -> None:
    row = Row(1, 10.0, 10.0, {"search": 1}, {"n1": 1}, 2.0, 2, 1, 700.0, 450.0)
    row.merge(Row(1, 5.0, 5.0, {"search": 1, "write": 1}, {"n2": 1}, 3.0, 3, 2, 900.0, 50.0))
    assert row == Row(2, 5.0, 10.0, {"search": 2, "write": 1}, {"n1": 1, "n2": 1}, 5.0, 5, 3, 900.0, 500.0)


def test_the_names_of_the_places_of_a_row_are_bounded() -> None:
    row = Row()
    row.merge(Row(nodes={f"node-{each}": 1 for each in range(10 * MOST_PLACES)}))
    row.merge(Row(nodes={"node-0": 2, "late": 1}))
    assert len(row.nodes) == MOST_PLACES
    assert row.nodes["node-0"] == 3


def read(number: int, *, series: Series = "scheduled", hours: float = 1.0, text: str = "") -> ReadCapture:
    at = MONDAY + number * hours * HOUR
    report = text or text_at(at, hot("n", "search", 25.0 + number, SEARCH), hot("n", "write", 12.5, SORT))
    return capture_at(at, report, f"/r/{number:06}.txt", series=series)


@pytest.mark.parametrize(
    ("hours", "width"), [(1 / 6, 600), (1.0, 1800), (3.0, 7200), (24.0, 43_200), (24 * 365.0, 31_449_600)]
)
def test_spans_get_longer_with_the_time_and_stay_few(hours: float, width: int) -> None:
    digest = digest_from(read(number, hours=hours) for number in range(48))
    spans = digest.profiles["scheduled", CPU].spans
    assert digest.width == width
    assert sum(cell.captures for cell in spans.values()) == 48
    assert (max(spans) - min(spans)) / width <= MOST_SPANS
    assert all(span % width == 0 for span in spans)


def test_a_cell_names_its_hottest_captures() -> None:
    digest = digest_from(read(number, hours=0.01) for number in range(9))
    profile = digest.profiles["scheduled", CPU]
    (cell,) = profile.pools.rows["search"].values()
    assert cell.captures == 9
    assert [named.path for named in cell.hottest] == [
        "/r/000008.txt",
        "/r/000007.txt",
        "/r/000006.txt",
    ]


@pytest.mark.long
def test_hostile_captures_do_not_make_it_large() -> None:
    """No two captures share a frame, a pool or a stack, but for one frame that all have."""
    digest = Digest(Period())
    for number in range(60):
        odd = (
            hot(f"n{number}", f"pool-{number}-{each}", 1.0 + each % 7, (f"o.x.C{number}.m{each}(C.java:1)", *SEARCH))
            for each in range(100)
        )
        digest.add(read(number, text=text_at(MONDAY, hot("n", "search", 50.0, SEARCH), *odd)))
    profile = digest.profiles["scheduled", CPU]
    assert len(profile.frames.rows) <= 2 * MOST_ROWS
    assert len(profile.stacks.rows) <= 2 * MOST_STACKS
    assert len(profile.pools.rows) <= 2 * MOST_POOLS + 1
    frames = profile.frames
    assert frames.rows["org.apache.lucene.util.automaton.RunAutomaton.step",].captures == 60
    assert 1 <= frames.error <= 3
    # Nothing is lost of the sums of all.
    assert sum(amount for *_, amount in profile.pools.ranked()) == pytest.approx(profile.amount)
    assert OTHER_POOLS in profile.pools.rows


def test_sums_of_spans_that_were_joined_are_those_of_all_captures() -> None:
    """The first captures were summed up in shorter spans than the last one."""
    captures = [*(read(number, hours=0.25) for number in range(39)), read(1000)]
    profile = digest_from(captures).profiles["scheduled", CPU]
    total = sum(CaptureSums(each).amount for each in captures)
    assert sum(cell.captures for cell in profile.spans.values()) == profile.captures == 40
    assert sum(cell.amount for cell in profile.spans.values()) == profile.amount == total
    for table in (profile.pools, profile.works, profile.stacks):
        assert sum(amount for *_, amount in table.ranked()) == total
        assert {span for row in table.rows.values() for span in row} == set(profile.spans)
    assert {len(cell.hottest) for cell in profile.pools.rows["search"].values()} == {1, MOST_NAMED}
