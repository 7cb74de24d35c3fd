"""
Stop a running task: Airflow's handler of SIGTERM requests it, and requests and waits end.

Python runs a signal handler in the main thread, between two steps of whatever that thread does, and then continues
there. An exception from the handler would end a request or a wait at once. Anywhere else it could do harm: a message to
Airflow's supervisor, a half-written file or a transaction would be cut in two. So a stop raises only within
:meth:`Stop.interruptible`; everywhere else it is noted, and the next request or wait raises.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_mediaops.exceptions import TaskStoppedError


class Stop:
    """Whether a task is to end. It uses no lock: a handler that waited for one could wait for its own thread."""

    def __init__(self) -> None:
        #: Whether somebody has requested the end.
        self.requested = False
        self._raises = False

    def request(self) -> None:
        """
        Request the end of the task.

        Every later request and wait raises a TaskStoppedError. In the main thread, one that is under way raises now;
        requests of other threads are not sent, or their replies are not waited for.
        """
        self.requested = True
        if self._raises and _in_main_thread():
            self._raises = False
            raise TaskStoppedError

    def check(self) -> None:
        """Raise a TaskStoppedError if the end was requested."""
        if self.requested:
            raise TaskStoppedError

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a request for the end raise at once, and in the main thread at any step of the block."""
        if not _in_main_thread():
            self.check()
            yield
            return
        before, self._raises = self._raises, True
        try:
            # After the line above, so that a signal between the two is not missed.
            self.check()
            yield
        finally:
            self._raises = before

    def sleep(self, seconds: float) -> None:
        """Sleep; raise a TaskStoppedError as soon as the end is requested."""
        with self.interruptible():
            time.sleep(seconds)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
