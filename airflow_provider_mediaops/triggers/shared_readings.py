"""
Share readings of a cluster's CPU among all triggers of one triggerer: one connection pool, one request an interval.

Each trigger that waits on a connection says when its next reading is due. A reading is made when the first is due.
Every trigger whose reading is due within half of its interval gets the reply, too, so triggers that began at any moment
fall into step. A reading that comes early is harmless: streaks count from readings, so more of them find a spike
sooner, and a low one breaks the streak as it should. Triggers that are starting or backing off are not woken.

The connection is read again when a trigger joins, when that was five minutes ago, and after a reading that failed; see
:meth:`airflow_provider_mediaops.hooks.base.ServiceHook.reading`.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from airflow_provider_mediaops.cluster.api import no_node_error, node_stats
from airflow_provider_mediaops.cluster.query import is_plain, node_list
from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.http.exchange import NoTurnError, awaiting
from airflow_provider_mediaops.waiting import LATE_SECONDS

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.http.exchange import CallFlow

# The entries of a list of nodes; None for all nodes.
Nodes = tuple[str, ...] | None

# The clusters that triggers wait on now, by event loop and connection.
_CLUSTERS: dict[tuple[asyncio.AbstractEventLoop, str], SharedCluster] = {}
# Waiters that get their reading before other tasks of the event loop run: a thousand at once would block it.
_AT_A_TIME = 20
# How many lists of nodes are known by the time of their last reading.
_MOST_LISTS = 1_000


@asynccontextmanager
async def shared_cluster(conn_id: str) -> AsyncIterator[SharedCluster]:
    """Share a cluster with all who wait on the same connection and event loop; the last one out closes it."""
    key = (asyncio.get_running_loop(), conn_id)
    if key not in _CLUSTERS:
        _CLUSTERS[key] = SharedCluster(conn_id)
    cluster = _CLUSTERS[key]
    cluster.users += 1
    try:
        yield cluster
    finally:
        cluster.users -= 1
        if not cluster.users:
            # Later callers start another one.
            del _CLUSTERS[key]
            await cluster.aclose()


class SharedCluster:
    """
    A cluster that several triggers wait on; see :func:`shared_cluster`.

    Its hook carries out their waits, and what they ask for beside the readings.
    """

    def __init__(self, conn_id: str) -> None:
        self.users = 0
        self.hook = SearchClusterHook(conn_id)
        # One for all plain lists of nodes, and one for each other list; there may be any number of lists over time.
        self._polls: WeakValueDictionary[Nodes, Poll] = WeakValueDictionary()

    def readings(self, nodes: str | Sequence[str] | None, interval: float) -> SharedReadings:
        """
        Take part in the readings; the next one is with the connection as it is now.

        The first one may be due to another trigger, within the interval in seconds.
        """
        entries = node_list(nodes)
        self.hook.read_connection_first()
        # Only the cluster can resolve a list that is not plain.
        poll = self._polls.setdefault(None if is_plain(entries) else entries, Poll(self.hook))
        return SharedReadings(poll, entries, interval)

    async def aclose(self) -> None:
        """Cancel all readings, and close the session."""
        tasks = [poll.task for poll in self._polls.values() if poll.task]
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self.hook.close()


class Poll:
    """Makes one reading for all of its waiters; its task lives as long as there are any."""

    def __init__(self, hook: SearchClusterHook) -> None:
        self.task: asyncio.Task[None] | None = None
        #: When the last reading of each list of nodes began, failed or not, as the event loop counts.
        self.began: dict[Nodes, float] = {}
        self._hook = hook
        self._waiters: list[SharedReadings] = []
        # Done when a waiter has come.
        self._newcomer: asyncio.Future[None] | None = None

    def add(self, waiter: SharedReadings) -> None:
        """Add one that waits for an answer."""
        self._waiters.append(waiter)
        if self._newcomer and not self._newcomer.done():
            self._newcomer.set_result(None)
        if self.task is None:
            # A context of its own: the triggerer writes a line of the log to the task that it finds in the context.
            self.task = contextvars.Context().run(asyncio.ensure_future, self._run())

    async def _run(self) -> None:
        try:
            while await self._is_due():
                await self._serve()
        finally:
            self.task = None

    async def _is_due(self) -> bool:
        """Sleep until a waiter's reading is due; return False if there is no waiter left."""
        loop = asyncio.get_running_loop()
        while True:
            self._newcomer = loop.create_future()
            # One with an answer has left, or its time was up.
            self._waiters = [waiter for waiter in self._waiters if not waiter.answer.done()]
            if not self._waiters:
                return False
            left = min(waiter.due for waiter in self._waiters) - loop.time()
            if left <= 0:
                return True
            await asyncio.wait([self._newcomer], timeout=left)

    async def _serve(self) -> None:
        now = asyncio.get_running_loop().time()
        wanted = {waiter.nodes for waiter in self._waiters if waiter.welcome_from <= now}
        # One list of nodes is asked for as it is; a reading of all nodes answers several.
        asked = wanted.pop() if len(wanted) == 1 else None
        if len(self.began) >= _MOST_LISTS:
            self.began.clear()
        self.began[asked] = now
        outcome: NodeStats | Exception
        try:
            reading = self._hook.reading(lambda ask: ask(node_stats(asked)), asyncio.get_running_loop().time)
            outcome = await self._hook.arun(reading)
        except Exception as error:  # noqa: BLE001 every error is the waiters'
            outcome = error
        await self._distribute(asked, outcome)

    async def _distribute(self, asked: Nodes, outcome: NodeStats | Exception) -> None:
        now = asyncio.get_running_loop().time()
        answered = [each for each in self._waiters if each.welcome_from <= now and asked in (None, each.nodes)]
        gone = set(answered)
        self._waiters = [waiter for waiter in self._waiters if waiter not in gone]
        parts = {asked: outcome}
        for number, waiter in enumerate(answered, 1):
            if waiter.nodes not in parts:
                parts[waiter.nodes] = outcome if isinstance(outcome, Exception) else _part(outcome, waiter.nodes)
            if not waiter.answer.done():
                waiter.answer.set_result(parts[waiter.nodes])
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)


def _part(stats: NodeStats, nodes: Nodes) -> NodeStats | Exception:
    part = stats.narrowed(nodes)
    return part if part.nodes else no_node_error(part, nodes)


class SharedReadings:
    """The readings that one trigger gets of a shared cluster."""

    def __init__(self, poll: Poll, nodes: Nodes, interval: float) -> None:
        self.nodes = nodes
        #: When its next reading is due, and from when on another one serves, as the event loop counts.
        self.due = self.welcome_from = 0.0
        #: The reading that it waits for, or the error that ended it.
        self.answer: asyncio.Future[NodeStats | Exception]
        self._poll = poll
        self._interval = interval
        self._has_come = False

    def next(self, pause: float, deadline: float = float("inf")) -> CallFlow[NodeStats]:
        """Wait, then read, as a source of readings for :func:`airflow_provider_mediaops.waiting.wait`."""
        return awaiting(partial(self.anext, pause, deadline))

    async def anext(self, pause: float, deadline: float = float("inf")) -> NodeStats:
        """
        Wait for a reading, for half a minute after the deadline at most, a time of the event loop.

        Only the first one never comes before the pause, in seconds, is over.
        """
        loop = asyncio.get_running_loop()
        self.due = loop.time() + pause
        self.welcome_from = self.due - self._interval / 2
        if not self._has_come:
            await asyncio.sleep(pause)
            # A trigger joins at its own time, and then shares the reading of the others.
            self.welcome_from = self.due
            last = max(self._poll.began.get(nodes, float("-inf")) for nodes in (self.nodes, None))
            self.due = max(self.due, min(last + self._interval, deadline))
            self._has_come = True
        self.answer = loop.create_future()
        self._poll.add(self)
        longest = None if deadline == float("inf") else deadline + LATE_SECONDS - loop.time()
        try:
            await asyncio.wait([self.answer], timeout=longest)
        finally:
            self.answer.cancel()
        if self.answer.cancelled():
            raise NoTurnError("The reading would come too long after the time limit.")
        outcome = self.answer.result()
        if isinstance(outcome, MediaOpsError):
            # Each raises an error of its own: one that many raise would collect the traces of all.
            raise copy.copy(outcome) from outcome.__cause__
        if isinstance(outcome, Exception):
            # A fault of the program: not every class of errors can be copied.
            raise outcome
        return outcome
