"""
Send the requests of event loops in threads: workers and triggerers use the same transport.

The threads are few: more of them would keep an event loop from its turn. A process of Airflow's ends without them
(``os._exit``), so it does not wait for a reply that nobody reads.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.http.stop import Stop

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request, Response
    from airflow_provider_mediaops.http.transport import Transport


class RequestThreads:
    """
    Threads that send requests for event loops.

    One user occupies a part of them at most, so that a host which does not answer holds up nobody else.
    """

    def __init__(self, threads: int, of_one_user: int) -> None:
        self._threads, self._of_one_user = threads, of_one_user
        # The turns of each user, of each event loop.
        self._turns = WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Semaphore]]()
        self._pool, self._process = self._new_pool(), os.getpid()

    async def send(self, transport: Transport, user: str, request: Request) -> Response:
        """
        Send one request.

        If the caller is cancelled, a request that has not been sent yet is not sent. One that is under way ends at its
        deadline, and nobody reads its reply.
        """
        loop = asyncio.get_running_loop()
        turns = self._turns.setdefault(loop, {})
        turn = turns.setdefault(user, asyncio.Semaphore(self._of_one_user))
        await turn.acquire()

        def end_turn(_: Future[Response]) -> None:
            # A loop that is closed has no other request.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(turn.release)

        cancelled = Stop()
        try:
            reply = self._submitted(transport, request, cancelled)
        except BaseException:
            turn.release()
            raise
        reply.add_done_callback(end_turn)
        try:
            return await asyncio.wrap_future(reply)
        except asyncio.CancelledError:
            cancelled.requested = True
            raise

    def _submitted(self, transport: Transport, request: Request, cancelled: Stop) -> Future[Response]:
        if self._process != os.getpid():
            # A process that was forked has none of the threads.
            self._pool, self._process = self._new_pool(), os.getpid()
        try:
            return self._pool.submit(contextvars.copy_context().run, transport.send, request, cancelled)
        except RuntimeError:
            # The pool has the request all the same.
            cancelled.requested = True
        raise TransportError(Failure.NOT_SENT, "the system starts no more threads for this process")

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, "mediaops-request")


#: The threads of readings, captures and posts.
SHORT_REQUESTS = RequestThreads(32, 12)
#: The threads of lists and exports. A list at 5 a second has 25 requests under way if each reply takes 5 seconds: 24
#: threads would carry 4.8 a second, which is less than the 96.5 % of the rate that a list keeps.
LONG_JOBS = RequestThreads(26, 26)
