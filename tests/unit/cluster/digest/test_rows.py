"""Rows by key: bounded, and summed up."""

from __future__ import annotations

import pytest

from airflow_provider_mediaops.cluster.digest.rows import MOST_PLACES, BoundedRows, FrameRow, TaskRow, add_counts


def seen(at: float = 1.0, amount: float = 1.0, pool: str = "search", node: str = "n") -> FrameRow:
    return FrameRow(1, at, at, {pool: 1}, {node: 1}, amount, 0.5)


def rows_of(limit: int, *names: str) -> BoundedRows[FrameRow]:
    rows: BoundedRows[FrameRow] = BoundedRows(FrameRow, limit)
    for name in names:
        rows.add((name,), seen())
    return rows


def test_a_row_is_the_sum_of_its_captures() -> None:
    rows = rows_of(5)
    rows.add(("a",), seen(at=30.0, amount=2.0))
    rows.add(("a",), seen(at=10.0, amount=3.0, pool="write"))
    assert rows.rows["a",] == FrameRow(2, 10.0, 30.0, {"search": 1, "write": 1}, {"n": 2}, 5.0, 1.0)


def test_adding_changes_no_row_of_others() -> None:
    """A row of one capture is added to several sums."""
    one = seen()
    rows = rows_of(5)
    rows.add(("a",), one)
    rows.add(("a",), seen())
    assert one.captures == 1
    assert one.pools == {"search": 1}


def test_up_to_twice_the_limit_nothing_is_dropped() -> None:
    rows = rows_of(2, "a", "b", "c", "d")
    rows.prune()
    assert (len(rows.rows), rows.error) == (4, 0)


def test_the_rarer_rows_are_dropped_and_the_most_that_a_row_may_lack_is_known() -> None:
    rows = rows_of(2, "a", "a", "a", "b", "b", "c", "c", "d", "e")
    rows.prune()
    assert [key for key, _ in rows.ranked()] == [("a",), ("b",)]
    assert rows.error == 2
    for name in ("f", "g", "h"):
        rows.add((name,), seen())
    rows.prune()
    assert rows.error == 3


@pytest.mark.parametrize("number", [MOST_PLACES, 10 * MOST_PLACES])
def test_the_names_of_places_are_bounded(number: int) -> None:
    counts: dict[str, int] = {}
    add_counts(counts, (f"node-{each}" for each in range(number)))
    add_counts(counts, {"node-0": 2})
    assert len(counts) == MOST_PLACES
    assert counts["node-0"] == 3


def test_a_group_of_tasks_keeps_its_longest_time_and_sums_its_cpu() -> None:
    row = TaskRow(1, 10.0, 10.0, {"search": 1}, {"n1": 1}, 2, 1, 900.0, 450.0)
    row.merge(TaskRow(1, 5.0, 5.0, {"search": 1}, {"n2": 1}, 3, 0, 1200.0, 50.0))
    assert row == TaskRow(2, 5.0, 10.0, {"search": 2}, {"n1": 1, "n2": 1}, 5, 1, 1200.0, 500.0)
