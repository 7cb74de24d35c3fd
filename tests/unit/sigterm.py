"""SIGTERM as Airflow's task runner handles it, sent at chosen moments."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LONGEST_SECONDS = 240.0


@contextmanager
def sigterm_calls(on_kill: Callable[[], None]) -> Iterator[None]:
    """Call this at SIGTERM, and nothing else; the interrupted code then continues."""
    before = signal.signal(signal.SIGTERM, lambda *_: on_kill())
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def terminate() -> None:
    """Send SIGTERM to this process; if this is the main thread, its handler runs before the next line."""
    if threading.current_thread() is threading.main_thread():
        signal.raise_signal(signal.SIGTERM)
    else:
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def terminated_after(reached: threading.Event | float) -> Iterator[None]:
    """Send SIGTERM to this process when an event has come, or after some seconds; the block is to end by it."""

    def work() -> None:
        if isinstance(reached, float):
            ended.wait(reached)
        elif not reached.wait(_LONGEST_SECONDS):
            return
        # No test is to be hit after its end.
        if not ended.is_set():
            terminate()

    ended = threading.Event()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_LONGEST_SECONDS)
