"""When the short benchmarks fail: if a ratio is a quarter worse than the recorded one each time it is measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.ratios import MEASURES, RECORDED, ROUNDS, compared

if TYPE_CHECKING:
    from collections.abc import Callable


def measure(*rounds: tuple[float, float]) -> Callable[[], tuple[float, float]]:
    times = iter(rounds)
    return lambda: next(times)


SLOW, GOOD = [(2.0, 1.0)] * ROUNDS, [(1.2, 1.0)] * ROUNDS


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        (GOOD, (1.2, True)),
        ([*SLOW, *GOOD], (1.2, True)),
        ([*SLOW, *SLOW, *GOOD], (1.2, True)),
        ([*SLOW, *SLOW, *SLOW], (2.0, False)),
        # Moments in which the machine was busy, in a round of either.
        ([(9.0, 1.0), (1.0, 1.0), (1.0, 9.0), (1.0, 1.0), (9.0, 1.0)], (1.0, True)),
    ],
)
def test_a_ratio_is_bad_if_it_is_bad_each_time(rounds: list[tuple[float, float]], expected: tuple[float, bool]) -> None:
    assert compared({"export": measure(*rounds)}, {"export": 1.0}) == {"export": expected}


def test_each_measure_has_its_recorded_ratio() -> None:
    assert json.loads(RECORDED.read_text()).keys() == MEASURES.keys()
