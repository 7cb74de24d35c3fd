"""Return the slots of cancelled callers in a thread, without holding up an event loop."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.schedule import MOST_VACANT

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.rate_limit.operations import Release
    from airflow_provider_mediaops.http.rate_limit.store_interface import RateStore


class Releases:
    """
    The slots of cancelled callers of one process, which a thread returns one after the other.

    The thread ends with the last of them, or with the first that fails: the rest pass unused then. So it holds up the
    end of the process for no longer than the store's time limit.

    :param store: the store that they are returned to.
    """

    def __init__(self, store: RateStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._waiting: list[tuple[str, Release, float]] = []
        self._is_running = False

    def add(self, name: str, operation: Release, cooldown: float) -> None:
        """Queue a slot to be returned; the parameters are those of :meth:`RateStore.release`."""
        with self._lock:
            if len(self._waiting) < MOST_VACANT:
                self._waiting.append((name, operation, cooldown))
            if self._is_running:
                return
            # An interpreter that is shutting down refuses to start a thread.
            with suppress(RuntimeError):
                threading.Thread(target=self._run, name="mediaops-rate-release").start()
                self._is_running = True

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                release = self._waiting.pop(0)
            try:
                self._store.apply(*release)
            except (RateStoreError, ValueError):
                with self._lock:
                    self._waiting.clear()
