"""Which parts are merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.storage.compaction import Piece, Tiers
from airflow_provider_mediaops.storage.parts import Part
from airflow_provider_mediaops.storage.records import Extent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TIERS = Tiers(fan_in=3, largest=100)


def pieces(*levels_and_sizes: tuple[int, int]) -> list[Piece]:
    return [Piece(Part(n, n, "a", 0, 0), Extent(), size, level) for n, (level, size) in enumerate(levels_and_sizes, 1)]


@pytest.mark.parametrize(
    ("levels_and_sizes", "due"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([(0, 1)], 0, id="one"),
        pytest.param([(0, 1)] * 2, 0, id="too few"),
        pytest.param([(0, 1)] * 3, 3, id="enough"),
        pytest.param([(0, 1)] * 5, 5, id="more than enough, where a merge was broken off"),
        pytest.param([(0, 0)] * 3, 3, id="states without records"),
        pytest.param([(1, 3), (0, 1), (0, 1)], 0, id="of two levels"),
        pytest.param([(1, 3), (0, 1), (0, 1), (0, 1)], 3, id="of the lower level only"),
        pytest.param([(1, 3), (1, 3), (0, 1), (0, 1), (0, 1)], 5, id="of both levels at once"),
        pytest.param([(2, 9), (2, 9), (1, 3), (1, 3), (0, 1), (0, 1), (0, 1)], 7, id="of three levels at once"),
        pytest.param([(0, 30), (0, 19)], 0, id="few that are less than half of the largest"),
        pytest.param([(0, 30), (0, 20)], 2, id="few that are half of the largest"),
        pytest.param([(1, 45), (0, 2), (0, 2), (0, 2)], 4, id="half of the largest by way of a lower level"),
        pytest.param([(0, 50)], 0, id="one that is full"),
        pytest.param([(0, 1), (0, 1), (0, 50)], 0, id="none before one that is full"),
        pytest.param([(0, 50), (0, 1), (0, 1)], 0, id="full ones do not count"),
        pytest.param([(0, 50), (0, 1), (0, 1), (0, 1)], 3, id="only those after one that is full"),
        pytest.param([(1, 9), (1, 9), (0, 20), (0, 20), (0, 20)], 3, id="what is full when merged goes no further"),
    ],
)
def test_due(levels_and_sizes: list[tuple[int, int]], due: int) -> None:
    assert TIERS.due(pieces(*levels_and_sizes)) == due


def merged(sizes: Iterable[int], tiers: Tiers) -> Iterator[tuple[list[Piece], int]]:
    """Make commits of these sizes; give after each what is left, and how many bytes were merged for it."""
    left: list[Piece] = []
    for number, size in enumerate(sizes, 1):
        left.append(Piece(Part(number, number, "a", 0, 0), Extent(), size))
        total = 0
        if due := tiers.due(left):
            merging = left[-due:]
            total = sum(piece.size for piece in merging)
            part = Part(merging[0].part.first, number, "a", 0, 0)
            left[-due:] = [Piece(part, Extent(), total, max(piece.level for piece in merging) + 1)]
        yield left, total


@given(
    st.lists(st.integers(0, 120), max_size=400),
    st.builds(Tiers, fan_in=st.integers(2, 5), largest=st.integers(2, 200)),
)
def test_whatever_is_committed_few_parts_are_left_and_none_is_large(sizes: list[int], tiers: Tiers) -> None:
    number = 0
    for number, (left, total) in enumerate(merged(sizes, tiers), 1):
        assert total < tiers.largest
        assert tiers.due(left) == 0, "what is merged, is merged as far as it goes"
        commits = [piece.part.last - piece.part.first + 1 for piece in left]
        full = [piece.size >= tiers.largest // 2 for piece in left]
        assert sum(commits) == number
        assert [piece.part.first for piece in left] == [1, *(piece.part.last + 1 for piece in left)][: len(left)]
        # So the levels, and with them how often a record is written, grow with the logarithm.
        for piece, many, is_full in zip(left, commits, full, strict=True):
            assert many >= tiers.fan_in ** max(piece.level - is_full, 0)
        levels = max(piece.level for piece in left) + 1
        assert len(left) <= sum(full) + (sum(full) + 1) * (tiers.fan_in - 1) * levels
    assert number == len(sizes)


def test_an_hour_and_more_of_a_commit_a_second() -> None:
    most = written = 0
    for left, total in merged([1000] * 20_000, Tiers()):
        most = max(most, len(left))
        written += 1000 + total

    assert most < 140
    assert written < 3.6 * 20_000_000
