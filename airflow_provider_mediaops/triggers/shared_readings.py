"""
Share readings of a cluster's CPU among all triggers of one triggerer: one connection pool, one request an interval.

Each trigger that waits on a connection says when its next reading is due. The earliest makes the request. Every trigger
whose reading is due within half of its interval gets the reply, too, so triggers that began at any moment fall into
step. A reading that comes early is harmless: streaks count from readings, so more of them find a spike sooner, and a
low one breaks the streak as it should. Triggers that are starting or backing off are not woken.

The connection is read again when a trigger joins, when that was five minutes ago, and after a reading that failed; see
:meth:`airflow_provider_mediaops.hooks.base.ServiceHook.reading`.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from airflow_provider_mediaops.cluster.api import node_stats
from airflow_provider_mediaops.cluster.query import node_list
from airflow_provider_mediaops.cluster.selection import is_plain, narrowed
from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.http.exchange import awaiting
from airflow_provider_mediaops.waiting import LATE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.cluster.selection import Selection
    from airflow_provider_mediaops.http.exchange import CallFlow

# The clusters that triggers wait on now, by event loop and connection.
_CLUSTERS: dict[tuple[asyncio.AbstractEventLoop, str], SharedCluster] = {}
# Waiters that get their reading before other tasks of the event loop run: a thousand at once would block it.
_AT_A_TIME = 20
_NEVER = float("-inf")


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
        self._together = Poll(self._read, self._refer)
        # Those that somebody waits for; there may be any number of lists over time.
        self._apart: WeakValueDictionary[Selection, Poll] = WeakValueDictionary()

    def readings(self, nodes: str | Sequence[str] | None, interval: float) -> SharedReadings:
        """
        Take part in the readings; the next one is with the connection as it is now.

        A first reading may be another trigger's that is younger than the interval, in seconds.
        """
        selection = node_list(nodes)
        self.hook.read_connection_first()
        poll = self._together if is_plain(selection) else self._poll_of(selection)
        return SharedReadings(poll, selection, interval)

    async def aclose(self) -> None:
        """Cancel all readings, and close the session."""
        polls = [self._together, *self._apart.values()]
        try:
            await asyncio.gather(*(task for poll in polls for task in poll.stop()), return_exceptions=True)
        finally:
            self.hook.close()

    def _poll_of(self, selection: Selection) -> Poll:
        return self._apart.setdefault(selection, Poll(self._read, self._refer))

    def _refer(self, waiter: Waiter) -> None:
        # Only the cluster can resolve these names.
        self._poll_of(waiter.nodes).add(waiter)

    async def _read(self, nodes: Selection) -> NodeStats:
        reading = self.hook.reading(lambda ask: ask(node_stats(nodes)), asyncio.get_running_loop().time)
        stats = await self.hook.arun(reading)
        # Without a deadline there is always a reading.
        assert stats is not None  # noqa: S101
        return stats


class SharedReadings:
    """The readings that one waiter gets of a shared cluster."""

    def __init__(self, poll: Poll, nodes: Selection, interval: float) -> None:
        self._poll = poll
        self._nodes = nodes
        self._interval = interval
        self._has_come = False

    def next(self, pause: float, deadline: float = float("inf")) -> CallFlow[NodeStats | None]:
        """Wait, then read; see :class:`airflow_provider_mediaops.waiting.Readings`."""
        return awaiting(partial(self.anext, pause, deadline))

    async def anext(self, pause: float, deadline: float = float("inf")) -> NodeStats | None:
        """
        Wait for a reading; None if it has not come half a minute after the deadline, a time of the event loop.

        Only the first one never comes before the pause, in seconds, is over.
        """
        loop = asyncio.get_running_loop()
        due = loop.time() + pause
        welcome_from = due - self._interval / 2
        if not self._has_come:
            await asyncio.sleep(pause)
            # A waiter joins at its own time, and then shares the reading of the others.
            welcome_from = due
            due = max(due, min(self._poll.last(self._nodes) + self._interval, deadline))
            self._has_come = True
        waiter = Waiter(self._nodes, due, welcome_from, loop.create_future())
        self._poll.add(waiter)
        limit = loop.call_at(deadline + LATE_SECONDS, waiter.grant, None) if deadline < float("inf") else None
        try:
            outcome = await waiter.answer
        finally:
            if limit:
                limit.cancel()
        if isinstance(outcome, MediaOpsError):
            # Each raises an error of its own: one that many raise would collect the traces of all.
            raise copy.copy(outcome)
        if isinstance(outcome, Exception):
            raise RuntimeError(  # noqa: TRY004 no type is wrong here
                f"The CPU of the nodes could not be read: {type(outcome).__name__}."
            ) from outcome
        return outcome


@dataclass(slots=True, eq=False)
class Waiter:
    """A trigger that waits for a reading: for that which is due, or for another one from some time on."""

    nodes: Selection
    due: float
    welcome_from: float
    # None if the time is up. A waiter that leaves cancels it.
    answer: asyncio.Future[NodeStats | Exception | None]

    def welcomes(self, now: float) -> bool:
        """Return whether a reading at this time counts."""
        return now >= self.welcome_from and not self.answer.done()

    def grant(self, outcome: NodeStats | Exception | None) -> None:
        """Set the answer, unless there is one, or the waiter has left."""
        with suppress(asyncio.InvalidStateError):
            self.answer.set_result(outcome)


class Poll:
    """
    Makes one reading for all waiters of one event loop.

    While there are waiters, a timer or a request is under way.
    """

    def __init__(self, read: Callable[[Selection], Awaitable[NodeStats]], refer: Callable[[Waiter], None]) -> None:
        self._read = read
        self._refer = refer
        self._waiters: list[Waiter] = []
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        # When which nodes were read last.
        self._read_at: dict[Selection, float] = {}

    def last(self, nodes: Selection) -> float:
        """Return the event loop's time of the last reading of some nodes, failed or not; minus infinity for none."""
        return max(self._read_at.get(nodes, _NEVER), self._read_at.get(None, _NEVER))

    def add(self, waiter: Waiter) -> None:
        """Add a waiter."""
        self._waiters.append(waiter)
        self._wake_at(waiter.due)

    def stop(self) -> list[asyncio.Task[None]]:
        """Cancel the reading that is under way, if any, and return its task, to be awaited; forget all waiters."""
        self._waiters.clear()
        if self._timer:
            self._timer.cancel()
        if not self._reading:
            return []
        self._reading.cancel()
        return [self._reading]

    def _wake_at(self, due: float) -> None:
        if self._reading or (self._timer and self._timer.when() <= due):
            return
        if self._timer:
            self._timer.cancel()
        # A context of its own: the triggerer writes a line of the log to the task that it finds in the context.
        self._timer = asyncio.get_running_loop().call_at(due, self._begin, context=contextvars.Context())

    def _begin(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        # One with an answer has left, or its time was up.
        self._waiters = [waiter for waiter in self._waiters if not waiter.answer.done()]
        if any(waiter.due <= now for waiter in self._waiters):
            wanted = {waiter.nodes for waiter in self._waiters if waiter.welcomes(now)}
            # One list of nodes is asked for as it is; a reading of all nodes answers several.
            self._reading = loop.create_task(self._serve(wanted.pop() if len(wanted) == 1 else None))
        else:
            self._go_on()

    def _go_on(self) -> None:
        if self._waiters:
            self._wake_at(min(waiter.due for waiter in self._waiters))

    async def _serve(self, asked: Selection) -> None:
        began = asyncio.get_running_loop().time()
        outcome: NodeStats | Exception
        try:
            try:
                outcome = await self._read(asked)
            except Exception as error:  # noqa: BLE001 every error is the waiters'
                outcome = error
            self._remember(asked, began)
            await self._distribute(asked, outcome)
        finally:
            self._reading = None
            self._go_on()

    def _remember(self, asked: Selection, began: float) -> None:
        still = {None, *(waiter.nodes for waiter in self._waiters)}
        self._read_at = {nodes: at for nodes, at in self._read_at.items() if nodes in still}
        self._read_at[asked] = began

    async def _distribute(self, asked: Selection, outcome: NodeStats | Exception) -> None:
        now = asyncio.get_running_loop().time()
        answered = [waiter for waiter in self._waiters if waiter.welcomes(now) and asked in (None, waiter.nodes)]
        gone = set(answered)
        self._waiters = [waiter for waiter in self._waiters if waiter not in gone]
        parts: dict[Selection, NodeStats | Exception | None] = {asked: outcome}
        for number, waiter in enumerate(answered, 1):
            if waiter.nodes not in parts:
                parts[waiter.nodes] = outcome if isinstance(outcome, Exception) else narrowed(outcome, waiter.nodes)
            part = parts[waiter.nodes]
            if part is None:
                self._refer(waiter)
            else:
                waiter.grant(part)
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
