"""The text of a hot-threads report: the provider's parser, which is tried on real clusters' texts, reads all of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.hot_threads import parse
from airflow_provider_mediaops.sandbox.cluster.hot_threads_text import Sampling, section, time_text
from airflow_provider_mediaops.sandbox.cluster.nodes import NODES


def report(cpu: float = 90.0, **asked: Any) -> str:
    return section(NODES[1], cpu=cpu, at="2025-03-01T12:00:00.000Z", sampling=Sampling.model_validate(asked))


def test_a_section_is_laid_out_as_the_cluster_does() -> None:
    lines = report(cpu=90).split("\n")

    assert lines[0].startswith(f"::: {{sandbox-2}}{{{NODES[1].id}}}{{{NODES[1].ephemeral_id}}}{{127.0.0.1}}")
    assert lines[0].endswith("{127.0.0.1:9302}{dimr}{shard_indexing_pressure_enabled=true, zone=south}")
    assert lines[1] == (
        "   Hot threads at 2025-03-01T12:00:00.000Z, interval=500ms, busiestThreads=3, ignoreIdleThreads=true:"
    )
    assert lines[2] == "   "
    assert lines[3] == "   90.0% (450ms out of 500ms) cpu usage by thread 'opensearch[sandbox-2][search][T#5]'"
    assert lines[4] == "     6/10 snapshots sharing following 16 elements"
    assert lines[-2:] == ["", ""]
    assert len(report(cpu=-1).split("\n")) == 4, "nothing is hot on a node whose CPU is not known"


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
def test_every_report_is_read_whole(cpu: float, asked: dict[str, Any]) -> None:
    text = report(cpu, **asked)

    found = parse(text)
    assert (found.unparsed, found.render()) == ((), text)
    assert len(found.nodes[0].threads) == min(asked["threads"], 5 if asked["ignore_idle_threads"] == "true" else 7)
    percents = [thread.percent or 0.0 for thread in found.nodes[0].threads]
    # Waiting and blocking are not measured.
    assert percents == sorted(percents, reverse=True)
    assert asked["type"] == "cpu" or set(percents) <= {0.0}
    for thread in found.nodes[0].threads:
        assert sum(group.snapshots for group in thread.groups) == asked["snapshots"]
        assert {group.elements or len(group.frames) for group in thread.groups} == {
            len(group.frames) for group in thread.groups
        }


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
