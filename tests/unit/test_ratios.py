"""How the short benchmarks compare, and when they fail: if a ratio is a quarter worse each time it is measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.ratios.__main__ import RECORDED
from tests.benchmarks.ratios.comparison import compared
from tests.benchmarks.ratios.measures import MEASURES
from tests.benchmarks.ratios.turns import undisturbed_ratio

if TYPE_CHECKING:
    from collections.abc import Callable


def measure(*answers: float) -> Callable[[], float]:
    remaining = iter(answers)
    return lambda: next(remaining)


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([1.2], (1.2, True)),
        ([2.0, 1.2], (1.2, True)),
        ([2.0, 2.0, 1.2], (1.2, True)),
        ([2.0, 1.9, 2.0], (1.9, False)),
    ],
)
def test_a_ratio_is_bad_if_it_is_bad_each_time(ratios: list[float], expected: tuple[float, bool]) -> None:
    assert compared({"export": measure(*ratios)}, {"export": 1.0}) == {"export": expected}


@pytest.mark.parametrize(
    ("ours", "peers"),
    [
        # Of each, most turns are disturbed, and the first one loads what the others need.
        ([50.0, *[3.0] * 4, *[9.0] * 14, 70.0, 3.0], [20.0, *[2.0] * 20]),
        ([3.0] * 21, [5.0, *[8.0] * 16, *[2.0] * 4]),
        # One that is faster than it can be, because a clock jumped, is not the measure.
        ([3.0, 0.1, *[3.0] * 19], [2.0] * 21),
    ],
)
def test_the_turns_count_that_nothing_disturbs(ours: list[float], peers: list[float]) -> None:
    assert undisturbed_ratio(measure(*ours), measure(*peers), 20) == 1.5


def test_each_measure_has_its_recorded_ratio() -> None:
    assert json.loads(RECORDED.read_text()).keys() == MEASURES.keys()
