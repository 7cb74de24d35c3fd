"""The text of a hot-threads report: the provider's parser, which is tried on real clusters' texts, reads all of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.cluster.hot_threads import parse
from airflow_provider_mediaops.sandbox.cluster.hot_threads_text import Sampling, section
from airflow_provider_mediaops.sandbox.cluster.nodes import NODES


def report(cpu: float = 90.0, **asked: Any) -> str:
    return section(NODES[1], cpu=cpu, at="2025-03-01T12:00:00.000Z", sampling=Sampling.model_validate(asked))


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
