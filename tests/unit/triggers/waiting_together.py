"""Several that wait on one cluster, as triggers do, and write down what they see."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.triggers.shared_readings import shared_cluster
from tests.unit.scripted_cluster import CONN_ID
from tests.unit.virtual_time import START, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from airflow_provider_mediaops.cluster.models import NodeStats


def now() -> float:
    """Give the seconds since the beginning."""
    return asyncio.get_running_loop().time() - START


def names(reading: NodeStats | None) -> list[str | None]:
    """Give the names of the nodes of a reading."""
    assert reading is not None
    return [node.name for node in reading.nodes]


async def watch(
    seen: list[tuple[float, list[str | None]]],
    *,
    nodes: Any = None,
    interval: float = 10.0,
    begin: float = 0.0,
    readings: int = 3,
) -> None:
    """Wait as a trigger does, and write down when it saw which nodes."""
    await asyncio.sleep(begin)
    async with shared_cluster(CONN_ID) as shared:
        mine = shared.readings(nodes, interval)
        for number in range(readings):
            reading = await mine.anext(interval if number else 0.0)
            seen.append((now(), names(reading)))


def together(*watches: Coroutine[Any, Any, Any]) -> list[Any]:
    """Let them wait at the same time; give what each returns."""

    async def all_of_them() -> list[Any]:
        return await asyncio.gather(*watches)

    return in_virtual_time(all_of_them())
