"""
Readings of a cluster's CPU that all triggers of one triggerer share: one connection pool, one request an interval.

Each trigger that waits on a connection says when it wants its next reading. The earliest makes the request, and all
that want theirs within half of their interval get what it says: so triggers that began at any moment fall into step.
A reading that comes sooner than a trigger wanted it only sharpens what the trigger sees: a streak counts from
readings, so that more of them find a spike sooner, and a low one among them breaks what was no streak. Who has not
begun, or backs off, is left alone until then.

The connection is read from Airflow when the first trigger needs it, once more after each reading that failed, and anew
when the last trigger has left: one that was edited counts from then on. The session that it replaces is closed as soon
as no call uses it.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from airflow_provider_mediaops.cluster.api import node_list, node_stats
from airflow_provider_mediaops.cluster.selection import is_plain, narrowed
from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.http.exchange import awaiting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence

    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.cluster.selection import Selection
    from airflow_provider_mediaops.hooks.base import Service
    from airflow_provider_mediaops.http.exchange import Call, Conversation

T = TypeVar("T")

# The clusters that triggers wait on now, by their event loop and connection.
_CLUSTERS: dict[tuple[asyncio.AbstractEventLoop, str], SharedCluster] = {}
_CLOSING: set[asyncio.Task[None]] = set()
# Those who are told before others get their turn: to tell a thousand at once would hold up the event loop.
_AT_A_TIME = 20
_NEVER = float("-inf")


@asynccontextmanager
async def shared_cluster(conn_id: str) -> AsyncIterator[SharedCluster]:
    """
    Share a cluster with all who wait on the same connection and event loop; the last one out closes it.

    :param conn_id: the connection's id. Nothing is fetched or sent yet.
    :returns: a context manager with the cluster.
    """
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
            # Whoever comes from now on makes another.
            del _CLUSTERS[key]
            await _to_its_end(cluster.aclose())


async def _to_its_end(closing: Coroutine[Any, Any, None]) -> None:
    # Also where the trigger that waits for it is cancelled meanwhile.
    task = asyncio.get_running_loop().create_task(closing)
    _CLOSING.add(task)
    task.add_done_callback(_CLOSING.discard)
    await asyncio.shield(task)


class SharedCluster:
    """
    A cluster that several triggers wait on; see :func:`shared_cluster`.

    :param conn_id: the connection's id.
    """

    def __init__(self, conn_id: str) -> None:
        self.users = 0
        self._conn_id = conn_id
        self._hook = SearchClusterHook(conn_id)
        self._calls_under_way: Counter[SearchClusterHook] = Counter()
        self._together = Poll(self._read, self._refer)
        # Those that somebody waits for; there may be any number of lists over time.
        self._apart: WeakValueDictionary[Selection, Poll] = WeakValueDictionary()

    async def aask(self, call: Call[T]) -> T:
        """
        Make one call with the connection as it is now; the session stays open until the call ends.

        :param call: the call.
        :returns: its result.
        :raises MediaOpsError: the last error met, typed.
        """
        return await self._ask(self._hook, call)

    def readings(self, nodes: str | Sequence[str] | None, interval: float) -> SharedReadings:
        """
        Take part in the readings.

        :param nodes: ids or names of the nodes, in a list or in one text with commas; None for all.
        :param interval: seconds between two readings: one of somebody else's that is no older serves the first, too.
        :returns: the readings, for one waiter.
        :raises ValueError: for an empty list.
        """
        selection = node_list(nodes)
        poll = self._together if is_plain(selection) else self._poll_of(selection)
        return SharedReadings(poll, selection, interval)

    async def aclose(self) -> None:
        """Break off all readings, and close the session."""
        polls = [self._together, *self._apart.values()]
        await asyncio.gather(*(task for poll in polls for task in poll.stop()), return_exceptions=True)
        await self._hook.aclose()

    def _poll_of(self, selection: Selection) -> Poll:
        return self._apart.setdefault(selection, Poll(self._read, self._refer))

    def _refer(self, wish: Wish) -> None:
        # Whom these names mean, if anybody, is the cluster's to say.
        self._poll_of(wish.nodes).add(wish)

    async def _read(self, nodes: Selection) -> NodeStats:
        hook = self._hook
        try:
            return await self._ask(hook, node_stats(nodes))
        except MediaOpsError:
            if not await self._is_edited(hook):
                raise
        return await self._ask(self._hook, node_stats(nodes))

    async def _ask(self, hook: SearchClusterHook, call: Call[T]) -> T:
        self._calls_under_way[hook] += 1
        try:
            service = await _fetched(hook)
            return await hook.arun(service.client.ask(call))
        finally:
            self._calls_under_way[hook] -= 1
            await self._close_if_replaced(hook)

    async def _close_if_replaced(self, hook: SearchClusterHook) -> None:
        # Credentials that are leased differ at each fetch: each failing reading replaces the hook.
        if hook is not self._hook and not self._calls_under_way[hook]:
            del self._calls_under_way[hook]
            await _to_its_end(hook.aclose())

    async def _is_edited(self, failed: SearchClusterHook) -> bool:
        """Say whether another connection than that of the hook is there to be tried by now; if so, use it."""
        fresh = SearchClusterHook(self._conn_id)
        try:
            before, after = await _fetched(failed), await _fetched(fresh)
        except Exception:  # noqa: BLE001 what the reading failed with is told, and this comes again with the next
            return False
        if failed is self._hook and _settings(before) != _settings(after):
            self._hook = fresh
            await self._close_if_replaced(failed)
        return failed is not self._hook


class SharedReadings:
    """
    The readings that one waiter gets of a shared cluster.

    :param poll: where its wishes go.
    :param nodes: the nodes; None for all.
    :param interval: seconds between two readings.
    """

    def __init__(self, poll: Poll, nodes: Selection, interval: float) -> None:
        self._poll = poll
        self._nodes = nodes
        self._interval = interval
        self._has_come = False

    def next(self, pause: float, deadline: float = float("inf")) -> Conversation[NodeStats | None]:
        """Wait, then read; see :class:`airflow_provider_mediaops.waiting.Readings`."""
        return awaiting(partial(self.anext, pause, deadline))

    async def anext(self, pause: float, deadline: float = float("inf")) -> NodeStats | None:
        """
        Wait for a reading.

        :param pause: seconds from now until it is wanted; it may come sooner, but for the first.
        :param deadline: when to give up, as the event loop counts.
        :returns: the statistics; None where the deadline comes first.
        :raises MediaOpsError: where the cluster does not tell.
        """
        loop = asyncio.get_running_loop()
        due = loop.time() + pause
        welcome_from = due - self._interval / 2
        if not self._has_come:
            await asyncio.sleep(min(due, deadline) - loop.time())
            if due > deadline:
                return None
            # It begins no sooner than it wants to, and then waits for what the others wait for.
            welcome_from = due
            due = max(due, self._poll.last(self._nodes) + self._interval)
            self._has_come = True
        wish = Wish(self._nodes, due, welcome_from, loop.create_future())
        self._poll.add(wish)
        limit = loop.call_at(deadline, wish.grant, None) if deadline < float("inf") else None
        try:
            outcome = await wish.answer
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
class Wish:
    """
    Somebody waits for a reading.

    :param nodes: of which nodes; None for all.
    :param due: when it is to be made at the latest, as the event loop counts.
    :param welcome_from: from when on one that is made for others will do, too.
    :param answer: the statistics, or what the reading ended with; None where the time is up. Whoever waits no longer
        cancels it.
    """

    nodes: Selection
    due: float
    welcome_from: float
    answer: asyncio.Future[NodeStats | Exception | None]

    def welcomes(self, now: float) -> bool:
        """Say whether a reading at this time would be taken."""
        return now >= self.welcome_from and not self.answer.done()

    def grant(self, outcome: NodeStats | Exception | None) -> None:
        """Give the answer, unless there is one, or nobody waits for it any more."""
        with suppress(asyncio.InvalidStateError):
            self.answer.set_result(outcome)


class Poll:
    """
    Makes one reading for all who wait for it; for use on one event loop.

    There is a timer or a request under way while somebody waits, and nothing else.

    :param read: reads the CPU of some nodes, or of all (None).
    :param refer: takes a wish that a reading of all nodes does not answer.
    """

    def __init__(self, read: Callable[[Selection], Awaitable[NodeStats]], refer: Callable[[Wish], None]) -> None:
        self._read = read
        self._refer = refer
        self._wishes: list[Wish] = []
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        # When which nodes were read last, and before when the cluster asked not to be asked again.
        self._read_at: dict[Selection, float] = {}
        self._not_before = _NEVER

    def last(self, nodes: Selection) -> float:
        """
        Give the time of the last reading of some nodes, whatever came of it.

        :param nodes: the nodes.
        :returns: the time as the event loop counts; minus infinity where there was none.
        """
        return max(self._read_at.get(nodes, _NEVER), self._read_at.get(None, _NEVER))

    def add(self, wish: Wish) -> None:
        """
        Let somebody wait.

        :param wish: what for.
        """
        self._wishes.append(wish)
        self._wake_at(wish.due)

    def stop(self) -> list[asyncio.Task[None]]:
        """
        Break off what is under way; nobody may wait any more.

        :returns: what was under way, to be waited for.
        """
        self._wishes.clear()
        if self._timer:
            self._timer.cancel()
        if not self._reading:
            return []
        self._reading.cancel()
        return [self._reading]

    def _wake_at(self, due: float) -> None:
        when = max(due, self._not_before)
        if self._reading or (self._timer and self._timer.when() <= when):
            return
        if self._timer:
            self._timer.cancel()
        # A context of its own: the triggerer writes a line of the log to the task that it finds in the context.
        self._timer = asyncio.get_running_loop().call_at(when, self._begin, context=contextvars.Context())

    def _begin(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        # A wish that is answered is that of one who has left, or whose time was up.
        self._wishes = [wish for wish in self._wishes if not wish.answer.done()]
        if now >= self._not_before and any(wish.due <= now for wish in self._wishes):
            wanted = {wish.nodes for wish in self._wishes if wish.welcomes(now)}
            # One list of nodes is asked for as it is; a reading of all nodes answers several.
            self._reading = loop.create_task(self._serve(wanted.pop() if len(wanted) == 1 else None))
        else:
            self._go_on()

    def _go_on(self) -> None:
        if self._wishes:
            self._wake_at(min(wish.due for wish in self._wishes))

    async def _serve(self, asked: Selection) -> None:
        began = asyncio.get_running_loop().time()
        outcome: NodeStats | Exception
        try:
            try:
                outcome = await self._read(asked)
            except Exception as error:  # noqa: BLE001 whatever it is, those who wait have to know
                outcome = error
            self._remember(asked, began, outcome)
            await self._tell(asked, outcome)
        finally:
            self._reading = None
            self._go_on()

    def _remember(self, asked: Selection, began: float, outcome: NodeStats | Exception) -> None:
        still = {None, *(wish.nodes for wish in self._wishes)}
        self._read_at = {nodes: at for nodes, at in self._read_at.items() if nodes in still}
        self._read_at[asked] = began
        if isinstance(outcome, MediaOpsError) and outcome.retry_after:
            self._not_before = asyncio.get_running_loop().time() + outcome.retry_after

    async def _tell(self, asked: Selection, outcome: NodeStats | Exception) -> None:
        now = asyncio.get_running_loop().time()
        answered = [wish for wish in self._wishes if wish.welcomes(now) and asked in (None, wish.nodes)]
        gone = set(answered)
        self._wishes = [wish for wish in self._wishes if wish not in gone]
        parts: dict[Selection, NodeStats | Exception | None] = {asked: outcome}
        for number, wish in enumerate(answered, 1):
            if wish.nodes not in parts:
                parts[wish.nodes] = outcome if isinstance(outcome, Exception) else narrowed(outcome, wish.nodes)
            part = parts[wish.nodes]
            if part is None:
                self._refer(wish)
            else:
                wish.grant(part)
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)


async def _fetched(hook: SearchClusterHook) -> Service:
    # In Airflow 3.1, giving up in the middle of a reply puts the supervisor's channel out of order for all.
    return await asyncio.shield(asyncio.ensure_future(hook.aservice()))


def _settings(service: Service) -> tuple[Any, ...]:
    client = service.client
    return client.base_urls, client.auth, client.retry, service.transport
