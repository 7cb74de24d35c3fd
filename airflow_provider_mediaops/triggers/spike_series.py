"""Watch a cluster for spikes without end, and keep the hot nodes over a restart of the triggerer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.cpu_watch import SpikeVerdict, name_some
from airflow_provider_mediaops.http.exchange import awaiting
from airflow_provider_mediaops.triggers.shared_readings import shared_cluster
from airflow_provider_mediaops.waiting import Done, Pace, Progress, Term, wait

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from airflow_provider_mediaops.cluster.cpu_watch import Hysteresis, Spike
    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.triggers.shared_readings import SharedReadings

# An event that was yielded is in Airflow's database after this time, unless the machine is very busy.
_SECONDS_TO_ARRIVE = 5.0
_KEY_BYTES = 8


class SpikeSeries:
    """
    Watches a cluster for spikes, without end, and logs each change of state once.

    The hot nodes are one value in the asset's state store. Without a working store, nothing is kept, and nothing fails.
    """

    def __init__(
        self,
        conn_id: str,
        hysteresis: Hysteresis,
        poll_interval: float,
        *,
        store: Any,
        key: str,
        log: Callable[[int, str], None],
    ) -> None:
        self._conn_id = conn_id
        self._hysteresis = hysteresis
        self._poll_interval = poll_interval
        self._store = store
        self._key = key
        self._log = log
        self._store_works = True
        self._kept: tuple[str, ...] = ()
        self._not_kept_before = 0.0
        self._readings: SharedReadings | None = None

    async def spikes(self) -> AsyncGenerator[Spike, None]:
        """Yield each spike as it begins."""
        if self._store is not None:
            await self._recall()
        watch, loop = self._hysteresis.watch, asyncio.get_running_loop()
        judge = SpikeVerdict(self._hysteresis, loop.time)
        pace = Pace(self._poll_interval, silent_fail=True)
        progress = Progress(self._log_wait)
        pause, term = 0.0, Term(loop.time, loop.time())
        async with shared_cluster(self._conn_id) as cluster:
            self._readings = cluster.readings(watch.nodes, self._poll_interval)
            while True:
                outcome = await cluster.hook.arun(wait(self, judge, pace, progress, term, first_pause=pause))
                # Without a deadline and without a single poke, a wait ends in no other way.
                assert isinstance(outcome, Done)  # noqa: S101
                self._not_kept_before = loop.time() + _SECONDS_TO_ARRIVE
                yield outcome.value
                pause = self._poll_interval
                if self._hysteresis.running:
                    pause = min(pause, self._hysteresis.pause(loop.time()))

    def next(self, pause: float, deadline: float) -> CallFlow[NodeStats | None]:
        """Wait, then read; see :class:`airflow_provider_mediaops.waiting.Readings`."""
        return awaiting(partial(self._anext, pause, deadline))

    async def _anext(self, pause: float, deadline: float) -> NodeStats | None:
        assert self._readings is not None  # noqa: S101
        return await self._readings.anext(await self._before_a_reading(pause), deadline)

    def _log_wait(self, level: int, sentence: str) -> None:
        # While a node is hot, "no node is hot" would be wrong: it means no other one.
        if level > logging.INFO or not self._hysteresis.hot:
            self._log(level, sentence)

    async def _before_a_reading(self, pause: float) -> float:
        """Keep the hot nodes if they have changed, and return the rest of the pause."""
        hot = self._hysteresis.hot
        if hot == self._kept:
            return pause
        loop = asyncio.get_running_loop()
        begun = loop.time()
        # Not at once: if the triggerer is killed before the event is in the database, a restart has to repeat it.
        if self._not_kept_before > begun + pause:
            return pause
        await asyncio.sleep(self._not_kept_before - begun)
        if self._store is not None:
            await self._keep()
        if cooled := [whose for whose in self._kept if whose not in hot]:
            self._log(logging.INFO, f"Cooled down: {name_some(cooled)}.")
        self._kept = hot
        return max(pause - (loop.time() - begun), 0.0)

    async def _recall(self) -> None:
        try:
            stored = await self._store.aget(self._key)
        except Exception as error:  # noqa: BLE001 a deployment may bring a store of its own
            self._log_failure_once(error)
            return
        if stored is None:
            return
        if self._hysteresis.restore(stored):
            self._kept = self._hysteresis.hot
        else:
            self._log(
                logging.WARNING,
                "The state kept before the restart cannot be read: nodes that are still hot are reported again.",
            )

    async def _keep(self) -> None:
        try:
            await self._store.aset(self._key, self._hysteresis.to_dict())
        except Exception as error:  # noqa: BLE001 as above
            self._log_failure_once(error)
        else:
            self._store_works = True

    def _log_failure_once(self, error: Exception) -> None:
        # If one trigger watches several assets, Airflow gives it no store of its own and raises ValueError.
        if self._store_works:
            self._log(
                logging.WARNING,
                "The asset's state store failed, so that a restart of the triggerer may report a spike again: "
                f"{type(error).__name__}: {error}",
            )
        self._store_works = False


def state_key(arguments: dict[str, Any]) -> str:
    """Return the key of a trigger's state, in letters, digits and underscores: an asset may have several watchers."""
    distinguishing = json.dumps(arguments, sort_keys=True).encode()
    return f"mediaops_high_cpu_{hashlib.blake2b(distinguishing, digest_size=_KEY_BYTES).hexdigest()}"
