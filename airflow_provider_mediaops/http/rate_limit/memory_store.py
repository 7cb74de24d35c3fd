"""Schedules in the memory of one process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.clock import Clock
from airflow_provider_mediaops.http.rate_limit.operations import applied
from airflow_provider_mediaops.http.rate_limit.store_interface import PerProcess, RateStore, Reading

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Conversation
    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation
    from airflow_provider_mediaops.http.rate_limit.schedule import Schedule


@dataclass(slots=True)
class _Memory:
    schedules: dict[str, Schedule] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class MemoryStore(RateStore):
    """
    Keeps schedules in the memory of one process; other processes do not share them.

    :param clock: the source of time.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__("memory://")
        self._clock = clock or Clock()
        self._memory = PerProcess(_Memory)

    def apply(self, name: str, operation: Operation[A], cooldown: float) -> A:
        """Apply an operation. A schedule that begins gives its first slot at once: nothing can have been lost."""
        memory = self._memory.get()
        with memory.lock:
            schedule, answer = applied(operation, memory.schedules.get(name), self._clock.monotonic())
            memory.schedules[name] = schedule
        return answer

    def ask(self, name: str, operation: Operation[A], cooldown: float) -> Conversation[A]:
        """Apply an operation. It takes no time, so nothing has to be waited for."""
        yield from ()
        return self.apply(name, operation, cooldown)

    def read(self, name: str) -> Reading | None:
        """Read a schedule of this process."""
        memory = self._memory.get()
        with memory.lock:
            schedule = memory.schedules.get(name)
            return Reading(schedule, self._clock.monotonic()) if schedule else None

    def names(self) -> list[str]:
        """Return the names of the schedules of this process."""
        return sorted(self._memory.get().schedules)

    def forget(self, name: str) -> None:
        """Remove a schedule of this process."""
        self._memory.get().schedules.pop(name, None)

    def close(self) -> None:
        """Forget all schedules."""
        self._memory.pop()
