"""The layout of a hot-threads report, to the byte."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.sandbox.cluster.hot_threads_text import Sampling, nanoseconds, section, time_text
from airflow_provider_mediaops.sandbox.cluster.nodes import NODES

NODE = NODES[1]
HEADER = re.compile(
    r"::: \{sandbox-2\}\{[\w-]{22}\}\{[\w-]{22}\}\{127\.0\.0\.1\}\{127\.0\.0\.1:9302\}\{dimr\}"
    r"\{shard_indexing_pressure_enabled=true, zone=south\}"
)
THREAD = re.compile(r"   ( {0,3}\d+\.\d)% \(([\w.]+) out of ([\w.]+)\) (cpu|wait|block) usage by thread '(.+)'")
GROUP = re.compile(r"     (?:(\d+)/(\d+) snapshots sharing following (\d+) elements|unique snapshot)")
FRAME = re.compile(r"       \S.*\(.*\)")


def report(cpu: float = 90.0, **asked: Any) -> str:
    return section(NODE, cpu=cpu, at="2025-03-01T12:00:00.000Z", sampling=Sampling.model_validate(asked))


def threads(text: str) -> list[str]:
    return [match[5] for line in text.splitlines() if (match := THREAD.fullmatch(line))]


def groups(text: str) -> list[tuple[int, int]]:
    """The count and the number of frames of each group."""
    found: list[tuple[int, int]] = []
    for line in text.splitlines():
        if match := GROUP.fullmatch(line):
            found.append((int(match[1] or 1), 0))
        elif FRAME.fullmatch(line):
            found[-1] = (found[-1][0], found[-1][1] + 1)
    return found


def test_a_section_is_laid_out_as_the_cluster_does() -> None:
    lines = report(cpu=90).split("\n")

    assert HEADER.fullmatch(lines[0])
    assert lines[1] == (
        "   Hot threads at 2025-03-01T12:00:00.000Z, interval=500ms, busiestThreads=3, ignoreIdleThreads=true:"
    )
    assert lines[2] == "   "
    assert lines[3] == "   90.0% (450ms out of 500ms) cpu usage by thread 'opensearch[sandbox-2][search][T#5]'"
    assert lines[4] == "     6/10 snapshots sharing following 16 elements"
    assert FRAME.fullmatch(lines[5])
    assert lines[-2:] == ["", ""]


@given(
    cpu=st.floats(0.1, 100),
    asked=st.fixed_dictionaries(
        {
            "interval": st.integers(1, 10**13).map("{}nanos".format),
            "snapshots": st.integers(1, 10_000),
            "threads": st.integers(0, 20),
            "ignore_idle_threads": st.sampled_from(["true", "false"]),
            "type": st.sampled_from(["cpu", "wait", "block"]),
        }
    ),
)
def test_every_line_has_its_place(cpu: float, asked: dict[str, Any]) -> None:
    text = report(cpu, **asked)

    header, subheader, *body, empty = text.removesuffix("\n").split("\n")
    assert HEADER.fullmatch(header)
    assert subheader.startswith("   Hot threads at ")
    assert empty == ""
    assert all(line == "   " or any(p.fullmatch(line) for p in (THREAD, GROUP, FRAME)) for line in body)
    assert len(threads(text)) == min(asked["threads"], 5 if asked["ignore_idle_threads"] == "true" else 7)


@given(snapshots=st.integers(1, 3_000))
def test_groups_share_out_all_snapshots_and_announce_their_frames(snapshots: int) -> None:
    threads = report(snapshots=snapshots, threads=9999).split("\n   \n")[1:]
    assert threads
    for thread in threads:
        assert sum(count for count, _ in groups(thread)) == snapshots
        announced = [int(match[3]) for line in thread.splitlines() if (match := GROUP.fullmatch(line)) and match[3]]
        assert announced == [frames for count, frames in groups(thread) if count > 1]


def test_single_snapshot_is_a_unique_one() -> None:
    assert "snapshots sharing" not in report(snapshots=1)
    assert report(snapshots=1).count("     unique snapshot\n") == 3


def test_idle_threads_come_last_and_only_when_asked_for() -> None:
    names = threads(report(threads=9999, ignore_idle_threads="false"))

    assert names[:5] == threads(report(threads=9999))
    assert [name.split("][")[1] for name in names[5:]] == ["transport_worker", "generic"]


def test_threads_come_busiest_first() -> None:
    percents = [float(match[1]) for line in report(threads=9999).splitlines() if (match := THREAD.fullmatch(line))]

    assert percents == sorted(percents, reverse=True)
    assert len(percents) == 5


@pytest.mark.parametrize("cpu", [0, -1])
def test_a_node_with_nothing_hot_has_only_its_head(cpu: float) -> None:
    lines = report(cpu=cpu).split("\n")

    assert len(lines) == 4
    assert lines[2:] == ["", ""]


@pytest.mark.parametrize("type_", ["wait", "block"])
def test_waiting_and_blocking_read_zero(type_: str) -> None:
    assert f"\n    0.0% (0s out of 500ms) {type_} usage by thread '" in report(type=type_)


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "0s"),
        (999, "999nanos"),
        (455_590, "455.5micros"),
        (500_000_000, "500ms"),
        (1_500_000_000, "1.5s"),
        (90_000_000_000, "1.5m"),
        (3_600_000_000_000, "1h"),
        (86_400_000_000_000, "1d"),
    ],
)
def test_times_are_written_with_one_decimal_cut_off(nanos: int, text: str) -> None:
    assert time_text(nanos) == text


@pytest.mark.long
@given(number=st.integers(0, 10**9), unit=st.sampled_from(["nanos", "micros", "ms", "s", "m", "h", "d"]))
def test_a_time_that_is_read_and_written_is_the_same_up_to_its_decimal(number: int, unit: str) -> None:
    nanos = nanoseconds(f"{number}{unit}")

    if match := re.fullmatch(r"(\d+)(\D+)", time_text(nanos)):
        assert 0 <= nanos - nanoseconds(match[0]) <= nanos // 10
