"""Which group a thread likely worked for, and when nothing is claimed."""

from __future__ import annotations

import itertools

import pytest

from airflow_provider_mediaops.cluster.running_tasks.matching import (
    AMBIGUOUS,
    IDLE,
    NO_CPU,
    NO_MATCH,
    TaskCpu,
    match,
)
from airflow_provider_mediaops.cluster.running_tasks.model import LikelyGroup


def threads(*cpu_ms: float) -> list[LikelyGroup]:
    return [LikelyGroup(thread=f"T#{number}", cpu_ms=cpu) for number, cpu in enumerate(cpu_ms, start=1)]


def claims(cpu_ms: list[float], tasks: list[tuple[int, float]]) -> list[int | str]:
    """Give the group of each thread, or why there is none."""
    found = match(threads(*cpu_ms), [TaskCpu(cpu, group) for group, cpu in tasks])
    assert [one.thread for one in found] == [f"T#{number}" for number in range(1, len(cpu_ms) + 1)]
    return [one.why_not if one.group is None else one.group for one in found]


@pytest.mark.parametrize(
    ("cpu_ms", "tasks", "claimed"),
    [
        # Measured on OpenSearch 2.19.1 and 3.8.0: one long search, on two shards.
        ([477.6, 464.5], [(0, 476.2), (0, 464.5)], [0, 0]),
        ([474.4, 471.4], [(0, 471.6), (0, 467.9)], [0, 0]),
        # Two kinds, well apart.
        ([300.0, 152.3], [(1, 151.3), (0, 298.0)], [0, 1]),
        # Two threads for one task: it could be either.
        ([131.1, 129.8], [(0, 129.9)], [AMBIGUOUS, AMBIGUOUS]),
        # One thread, and tasks of two kinds.
        ([131.1], [(0, 129.9), (1, 132.0)], [AMBIGUOUS]),
        # Fewer threads than tasks of one kind: the report names the hottest only.
        ([131.1], [(0, 129.9), (0, 132.0)], [0]),
        ([145.0, 90.0], [(0, 151.3)], [NO_MATCH, NO_MATCH]),
        # Too far for a claim, and too near to be ruled out.
        ([145.5], [(0, 151.3)], [NO_MATCH]),
        ([4.0], [(0, 4.0)], [IDLE]),
        ([], [(0, 4.0)], []),
        ([200.0], [], [NO_MATCH]),
    ],
)
def test_only_what_cannot_be_another_one_is_claimed(
    cpu_ms: list[float], tasks: list[tuple[int, float]], claimed: list[int | str]
) -> None:
    for order in itertools.permutations(tasks):
        assert claims(cpu_ms, list(order)) == claimed


def test_a_claim_has_the_error_to_the_nearest_task() -> None:
    (found,) = match(threads(477.6), [TaskCpu(476.2, 2)])
    assert (found.group, found.cpu_ms, found.error_ms, found.why_not) == (2, 477.6, 1.4, "")
    several = match(threads(100.0, 102.0, 104.0), [TaskCpu(104.5, 0), TaskCpu(100.5, 0), TaskCpu(102.5, 0)])
    assert [one.error_ms for one in several] == [0.5, 0.5, 0.5]


def test_threads_that_cannot_be_compared_say_why() -> None:
    without = [LikelyGroup(thread="a"), LikelyGroup(thread="b", cpu_ms=100.0, why_not="it merges")]
    assert [one.why_not for one in match(without, [TaskCpu(100.0, 0)])] == [NO_CPU, "it merges"]


def test_any_number_of_tasks_is_matched_in_a_moment() -> None:
    alike = [TaskCpu(100.0, 0)] * 10_000
    assert {one.group for one in match(threads(*[100.0] * 200), alike)} == {0}
    assert {one.why_not for one in match(threads(*[100.0] * 200), alike[:199])} == {AMBIGUOUS}
