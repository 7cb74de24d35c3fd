"""
Do the blocking work of event loops in threads: workers and triggerers send over the same transport.

The threads are daemons and few. A process that ends does not wait for a reply that nobody reads, and more threads than
these would keep an event loop from its turn.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.http.stop import Stop

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request, Response
    from airflow_provider_mediaops.http.transport import Transport

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Job:
    """Work for a thread, in the context of the caller, and the future of its result."""

    action: Callable[[], Any]
    user: str = ""
    result: Future[Any] = field(default_factory=Future)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def run(self) -> None:
        """Do it, unless its future was cancelled."""
        if not self.result.set_running_or_notify_cancel():
            return
        try:
            self.result.set_result(self.context.run(self.action))
        except BaseException as error:  # noqa: BLE001 whoever waits raises it
            self.result.set_exception(error)
            # The traceback leads to this frame, which is not to lead back to the error.
            del self


class RequestThreads:
    """
    Threads for work that may block. A thread lives as long as there is work.

    One user occupies a part of them at most, so that a host or store which does not answer holds up nobody else.
    """

    def __init__(self, threads: int, of_one_user: int, name: str = "mediaops-request") -> None:
        self._name = name
        self._most = threads
        self._most_of_one_user = of_one_user
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[Job]] = {}
        self._busy: Counter[str] = Counter()

    async def send(self, transport: Transport, user: str, request: Request) -> Response:
        """
        Send one request.

        If the caller is cancelled, a request that has not been sent yet is not sent. One that is under way ends at its
        deadline, and nobody reads its reply.
        """
        cancelled = Stop()
        try:
            return await self.run(user, partial(transport.send, request, cancelled))
        except asyncio.CancelledError:
            cancelled.requested = True
            raise

    async def run(self, user: str, action: Callable[[], T]) -> T:
        """
        Run an action in a thread, when it is its user's turn.

        If the caller is cancelled, an action that has not begun is not begun; one that has goes on, and nobody waits.
        """
        job = Job(action, user)
        with self._lock:
            self._waiting.setdefault(user, deque()).append(job)
            # If there is a thread for it, others that wait are of users at their limit.
            first = self._take()
        if first:
            try:
                threading.Thread(target=self._work, args=(first,), name=self._name, daemon=True).start()
            except RuntimeError:
                # The system starts no more threads for this process.
                with self._lock:
                    self._busy[user] -= 1
                raise
        # To cancel this cancels the job's future, and a job whose future is cancelled does nothing when its turn comes.
        result: T = await asyncio.wrap_future(job.result)
        return result

    def _work(self, job: Job | None) -> None:
        while job:
            job.run()
            with self._lock:
                self._busy[job.user] -= 1
                job = self._take()

    def _take(self) -> Job | None:
        """Take a job whose turn it is out of those that wait, if there is one and a thread for it."""
        if self._busy.total() >= self._most:
            return None
        for user, jobs in self._waiting.items():
            if self._busy[user] < self._most_of_one_user:
                job = jobs.popleft()
                # The next turn is another user's.
                del self._waiting[user]
                if jobs:
                    self._waiting[user] = jobs
                self._busy[user] += 1
                return job
        return None


#: The threads of readings, captures and posts.
SHORT_REQUESTS = RequestThreads(32, 12)
#: The threads of lists and exports. A list at 5 a second has 25 requests under way if each reply takes 5 seconds: 24
#: threads would carry 4.8 a second, less than the 96.5 % of the rate that a list keeps. The rest is for others.
LONG_JOBS = RequestThreads(32, 26)
