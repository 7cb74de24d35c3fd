"""Watch a cluster for spikes without end, and keep the hot nodes over a restart of the triggerer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.cpu_watch import MOST_NODES
from airflow_provider_mediaops.cluster.text import listed
from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.http.exchange import awaiting
from airflow_provider_mediaops.triggers.shared_readings import shared_cluster
from airflow_provider_mediaops.waiting import Done, Pace, Progress, Term, wait

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.cpu_watch import Hysteresis, Spike
    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.waiting import Verdict

# An event that was yielded is in Airflow's database after this time, unless the machine is very busy.
_SECONDS_TO_ARRIVE = 5.0
_KEY_BYTES = 8


class HotNodes:
    """
    The hot nodes of a watch, kept as one value in the asset's state store.

    Without a store that works, nothing is kept, and nothing fails.
    """

    def __init__(self, hysteresis: Hysteresis, store: Any, key: str, log: Callable[[int, str], None]) -> None:
        #: When the last event will have reached the database, as the event loop counts.
        self.arrives_at = 0.0
        self._hysteresis = hysteresis
        self._store = store
        self._key = key
        self._log = log
        self._kept: tuple[str, ...] = ()
        self._has_failed = False

    async def recall(self) -> None:
        """Take up what was kept before a restart."""
        with self._forgiving():
            stored = await self._store.aget(self._key) if self._store else None
            if stored is not None:
                self._hysteresis.restore(stored)
        self._kept = self._hysteresis.hot

    async def keep(self) -> None:
        """Keep the hot nodes, and log those that have cooled down."""
        hot = self._hysteresis.hot
        # Not at once: if the triggerer is killed before the event is in the database, a restart has to repeat it.
        if hot == self._kept or asyncio.get_running_loop().time() < self.arrives_at:
            return
        if cooled := [whose for whose in self._kept if whose not in hot]:
            self._log(logging.INFO, f"Cooled down: {listed(cooled, 20)}.")
        self._kept = hot
        with self._forgiving():
            if self._store:
                await self._store.aset(self._key, list(hot[-MOST_NODES:]))

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        """Log the first failure of the store; a deployment may bring one of its own."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 whatever it raises
            # If one trigger watches several assets, Airflow gives it no store of its own and raises ValueError.
            if not self._has_failed:
                lost = "The asset's state store failed, so that a restart of the triggerer may report a spike again"
                self._log(logging.WARNING, f"{lost}: {type(error).__name__}: {error}")
            self._has_failed = True


async def spikes(
    conn_id: str, hysteresis: Hysteresis, poll_interval: float, *, store: Any, key: str, log: Callable[[int, str], None]
) -> AsyncGenerator[Spike, None]:
    """Watch a cluster without end; yield each spike as it begins, and log each change of state once."""

    def log_wait(level: int, sentence: str) -> None:
        # While a node is hot, "no node is hot" would be wrong: it means no other one.
        if level > logging.INFO or not hysteresis.hot:
            log(level, sentence)

    def judge(stats: NodeStats | None) -> Verdict:
        return hysteresis.judge(stats, loop.time())

    loop = asyncio.get_running_loop()
    pace, progress = Pace(poll_interval, silent_fail=True), Progress(log_wait)
    pause, term = 0.0, Term(loop.time, loop.time())
    async with shared_cluster(conn_id) as cluster:
        shared = cluster.readings(hysteresis.watch.nodes, poll_interval)
        hot = HotNodes(hysteresis, store, key, log)

        def next_reading(pause: float, deadline: float) -> CallFlow[NodeStats]:
            try:
                reading = yield from shared.next(pause, deadline)
            except MediaOpsError:
                yield from awaiting(hot.keep)
                raise
            yield from awaiting(hot.keep)
            return reading

        await hot.recall()
        while True:
            outcome = await cluster.hook.arun(wait(next_reading, judge, pace, progress, term, first_pause=pause))
            # Without a deadline and without a single poke, a wait ends in no other way.
            assert isinstance(outcome, Done)  # noqa: S101
            hot.arrives_at = loop.time() + _SECONDS_TO_ARRIVE
            yield outcome.value
            pause = min(poll_interval, hysteresis.pause(loop.time())) if hysteresis.running else poll_interval


def state_key(arguments: dict[str, Any]) -> str:
    """Return the key of a trigger's state, in letters, digits and underscores: an asset may have several watchers."""
    distinguishing = json.dumps(arguments, sort_keys=True).encode()
    return f"mediaops_high_cpu_{hashlib.blake2b(distinguishing, digest_size=_KEY_BYTES).hexdigest()}"
