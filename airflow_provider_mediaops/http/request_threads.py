"""
Send the requests of event loops in threads: workers and triggerers use the same transport.

The threads are daemons and few. A process that ends does not wait for a reply that nobody reads, and more threads than
these would keep an event loop from its turn.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import weakref
from collections import Counter, deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.exchange import Failure, TransportError
from airflow_provider_mediaops.http.stop import Stop

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request, Response
    from airflow_provider_mediaops.http.transport import Transport

# A thread that has had nothing to send for so long ends.
_IDLE_SECONDS = 10.0


@dataclass(slots=True)
class _Job:
    """A request that waits for a thread, and the future of its reply."""

    transport: Transport
    request: Request
    reply: Future[Response] = field(default_factory=Future)
    cancelled: Stop = field(default_factory=Stop)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def run(self) -> None:
        if not self.reply.set_running_or_notify_cancel():
            return
        try:
            self.reply.set_result(self.context.run(self.transport.send, self.request, self.cancelled))
        except BaseException as error:  # noqa: BLE001 the coroutine that waits raises it
            self.reply.set_exception(error)


_pools: weakref.WeakSet[RequestThreads] = weakref.WeakSet()


class RequestThreads:
    """
    Threads that send requests for event loops.

    One user occupies a part of them at most, so that a host which does not answer holds up nobody else.
    """

    def __init__(self, threads: int, of_one_user: int) -> None:
        self._most = threads
        self._most_of_one_user = of_one_user
        self.begin_anew()
        _pools.add(self)

    def begin_anew(self) -> None:
        """Begin without threads and requests, as a process that was forked has to."""
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._waiting: dict[str, deque[_Job]] = {}
        self._busy: Counter[str] = Counter()

    async def send(self, transport: Transport, user: str, request: Request) -> Response:
        """
        Send one request.

        If the caller is cancelled, a request that has not been sent yet is not sent. One that is under way ends at its
        deadline, and nobody reads its reply.
        """
        job = _Job(transport, request)
        self._add(user, job)
        try:
            return await asyncio.wrap_future(job.reply)
        except asyncio.CancelledError:
            job.cancelled.requested = True
            raise

    def _add(self, user: str, job: _Job) -> None:
        with self._changed:
            # An idle thread that was told of an earlier job is idle until it wakes up.
            if self._threads < self._most and sum(map(len, self._waiting.values())) >= self._idle:
                self._start_thread()
            self._waiting.setdefault(user, deque()).append(job)
            self._changed.notify()

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._work, name="mediaops-request", daemon=True).start()
        except RuntimeError:
            # The system gives this process no more threads. Those that there are will do.
            if not self._threads:
                raise TransportError(Failure.NOT_SENT, "the system starts no more threads for this process") from None
        else:
            self._threads += 1

    def _work(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """Wait for a request and send it; return False if none has come for a while."""
        taken = self._next()
        if taken is None:
            return False
        user, job = taken
        try:
            job.run()
        finally:
            self._end(user)
        return True

    def _next(self) -> tuple[str, _Job] | None:
        has_come = True
        with self._changed:
            while (taken := self._take()) is None:
                if not has_come:
                    self._threads -= 1
                    return None
                self._idle += 1
                has_come = self._changed.wait(_IDLE_SECONDS)
                self._idle -= 1
            return taken

    def _take(self) -> tuple[str, _Job] | None:
        for user, jobs in self._waiting.items():
            if self._busy[user] < self._most_of_one_user:
                job = jobs.popleft()
                # The next turn is another user's.
                del self._waiting[user]
                if jobs:
                    self._waiting[user] = jobs
                self._busy[user] += 1
                return user, job
        return None

    def _end(self, user: str) -> None:
        with self._changed:
            self._busy[user] -= 1
            if not self._busy[user]:
                del self._busy[user]


#: The threads of readings, captures and posts.
SHORT_REQUESTS = RequestThreads(32, 12)
#: The threads of lists and exports. A list at 5 a second has 25 requests under way if each reply takes 5 seconds: 24
#: threads would carry 4.8 a second, which is less than the 96.5 % of the rate that a list keeps.
LONG_JOBS = RequestThreads(26, 26)


def _begin_pools_anew() -> None:
    for pool in list(_pools):
        pool.begin_anew()


# A process that was forked has none of the threads.
os.register_at_fork(after_in_child=_begin_pools_anew)
