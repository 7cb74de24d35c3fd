"""A soak sees what grows, and takes nothing for growth that only goes up and down."""

from __future__ import annotations

import random

import pytest

from tests.soak.trends import trend_of

SECONDS = [5.0 * reading for reading in range(60)]


def noise(seed: int) -> list[float]:
    dice = random.Random(seed)  # noqa: S311 nothing is secret here
    return [dice.uniform(-1, 1) for _ in SECONDS]


@pytest.mark.parametrize("seed", range(20))
def test_a_leak_of_one_a_minute_is_seen_within_five(seed: int) -> None:
    leaking = [40 + second / 60 + more for second, more in zip(SECONDS, noise(seed), strict=True)]

    trend = trend_of(SECONDS, leaking)

    assert trend.is_sure_to_exceed > 12
    assert trend.per_hour == pytest.approx(60, abs=4 * trend.error)


@pytest.mark.parametrize("seed", range(20))
def test_figure_that_goes_up_and_down_does_not_grow(seed: int) -> None:
    assert trend_of(SECONDS, [40 + more for more in noise(seed)]).is_sure_to_exceed < 12


def test_a_figure_that_never_changes_has_no_error() -> None:
    trend = trend_of(SECONDS, [7.0] * 60)

    assert (trend.level, trend.per_hour, trend.error) == (7, 0, 0)


def test_a_large_reply_at_one_reading_is_no_growth() -> None:
    values = [100.0] * 59 + [5_000.0]

    assert trend_of(SECONDS, values).per_hour == 0


def test_three_readings_have_no_trend() -> None:
    with pytest.raises(ValueError, match="4 readings or more, not 3"):
        trend_of([0, 1, 2], [1, 1, 1])
