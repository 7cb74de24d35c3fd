"""The limiter against its model, and worlds in which the model fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.rate_limit import schedule
from airflow_provider_mediaops.http.rate_limit.schedule import Granted, Later
from tests.models.limiter_model import LimiterMachine
from tests.models.settings import try_examples
from tests.models.worlds import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.rate_limit.schedule import Answer, Schedule


def test_the_limiter_is_what_its_model_says() -> None:
    try_examples(LimiterMachine)


def _unchanged(state: Schedule, _now: float, *_figures: object) -> Schedule:
    return state


def _without_log(confirm: Callable[..., tuple[Schedule, Answer]]) -> Callable[..., tuple[Schedule, Answer]]:
    """Keep the log without the entry of a permit."""

    def confirmed(state: Schedule, now: float, rate: float, slot: float) -> tuple[Schedule, Answer]:
        after, answer = confirm(state, now, rate, slot)
        return replace(after, sent=state.sent), answer

    return confirmed


def _at_once(state: Schedule, now: float, rate: float, slot: float) -> tuple[Schedule, Answer]:
    """Permit a request in a slot that is due, however many were sent."""
    after, answer = _CONFIRM(state, now, rate, slot)
    is_due = isinstance(answer, Later) and state.at <= now and slot <= schedule.reading_at(state, now)
    return (after, Granted(now)) if is_due else (after, answer)


_CONFIRM = schedule.confirm
WORLDS = {
    "a slot is a permit, however late it is confirmed": World(schedule, "confirm", _at_once, "permits in"),
    "permits are not kept": World(schedule, "confirm", _without_log(_CONFIRM), "permits in"),
    "a pause is not kept": World(schedule, "slow_down", _unchanged, "a permit in a pause"),
    "a quota is not kept": World(schedule, "exhaust", _unchanged, "a permit in a pause"),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WORLDS[world].check(LimiterMachine, monkeypatch)
