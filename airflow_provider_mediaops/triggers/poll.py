"""One reading for all who wait for one: each says when, the earliest makes the request, and all get the answer."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.selection import Selection, narrowed
from airflow_provider_mediaops.exceptions import MediaOpsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from airflow_provider_mediaops.cluster.models import NodeStats

# Those who are told before others get their turn: to tell a thousand at once would hold up the event loop.
_AT_A_TIME = 20
_NEVER = float("-inf")


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
