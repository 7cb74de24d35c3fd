"""Two attempts at one destination, with a switch between two of their requests."""

from __future__ import annotations

from airflow_provider_mediaops.exceptions import DestinationInUseError
from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS
from tests.unit.storage.places import owner
from tests.unit.storage.turns import (
    World,
    actors,
    check_published,
    check_resumed,
)


def requests_of(world: World) -> int:
    """Count the requests of an attempt that nobody disturbs."""
    count = 0
    with actors(world, alone=owner()) as (alone,):
        while not alone.ended:
            alone.step()
            count += 1
    assert alone.outcome is None
    return count


def interleave(world: World, before: int, between: int, *, retry: bool) -> None:
    """
    Let one attempt make some requests, another some, then the first go on to its end, then the other.

    :param world: what they share.
    :param before: the requests of the first.
    :param between: those of the second.
    :param retry: whether the second is another attempt of the same task; otherwise it is of another task, and the first
        has stood still for so long that it counts as dead.
    """
    with actors(world, first=owner(), second=owner() if retry else owner("another/run/task/-1")) as (first, second):
        first.step(before)
        if not retry:
            world.now += STALE_AFTER_SECONDS
        second.step(between)
        first.finish()
        second.finish()
        for actor in (first, second):
            assert isinstance(actor.outcome, (type(None), DestinationInUseError)), actor.outcome
        acquired = [name for kind, name in world.events if kind == "acquired"]
        older, newer = (second, first) if acquired[-1] == "first" else (first, second)
        check_published(world, older, newer)
        if retry and (world.conditional or newer is second):
            check_resumed(world, older, newer)
        assert "receipt" in dict(world.events) or None not in (first.outcome, second.outcome)
