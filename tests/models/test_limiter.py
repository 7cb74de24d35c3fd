"""The limiter against its model, and worlds in which the model fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.http.rate_limit import store_interface
from airflow_provider_mediaops.http.rate_limit.operations import ExhaustQuota, Release, Reserve, SlowDown
from airflow_provider_mediaops.http.rate_limit.schedule import Granted
from tests.models.limiter_model import LimiterMachine
from tests.models.settings import try_examples
from tests.models.worlds import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.rate_limit.schedule import Schedule, Slot


def test_the_limiter_is_what_its_model_says() -> None:
    try_examples(LimiterMachine)


def _unchanged(_operation: object, schedule: Schedule, _now: float) -> tuple[Schedule, None]:
    return schedule, None


def _forgets_entries(reserve: Callable[..., tuple[Schedule, Any]]) -> Callable[..., tuple[Schedule, Any]]:
    """Keep the log without the entry of a permit."""

    def apply(operation: Reserve, schedule: Schedule, now: float) -> tuple[Schedule, Any]:
        after, answer = reserve(operation, schedule, now)
        return replace(after, sent=schedule.sent[-1:]), answer

    return apply


def _confirm_at_once(
    _operation: Reserve, schedule: Schedule, now: float, slept: float, _slot: Slot
) -> tuple[Schedule, Granted]:
    return replace(schedule, seen=now, sent=(*schedule.sent, slept)), Granted(schedule.epoch, slept)


WORLDS = {
    "a slot is a permit, however late it is confirmed": World(Reserve, "_confirm", _confirm_at_once, "permits in"),
    "permits are not kept": World(Reserve, "apply", _forgets_entries(Reserve.apply), "permits in"),
    "a slot is not returned": World(Release, "apply", _unchanged, "nobody waits"),
    "a cancelled question is not followed up": World(
        store_interface._Call,  # noqa: SLF001
        "abandon",
        lambda _self: None,
        "nobody waits",
    ),
    "a pause is not kept": World(SlowDown, "apply", _unchanged, "a permit in a pause"),
    "a quota is not kept": World(ExhaustQuota, "apply", _unchanged, "a permit in a pause"),
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_model_fails_where(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    WORLDS[world].check(LimiterMachine, monkeypatch)
