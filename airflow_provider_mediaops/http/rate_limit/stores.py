"""Where the schedules of keys are kept: what every store does, and the one that is the memory of a process."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from airflow_provider_mediaops.http.clock import Clock
from airflow_provider_mediaops.http.exchange import Blocking
from airflow_provider_mediaops.http.rate_limit.schedule import applied

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import Conversation
    from airflow_provider_mediaops.http.rate_limit.schedule import A, Operation, Schedule

T = TypeVar("T")


class RateStore(ABC):
    """
    Keeps the schedules of keys, by name, for all who use it.

    :param where: its address, free of credentials.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        #: What must not be shown of the credentials.
        self.secrets: tuple[str, ...] = ()
        #: Whether this process has used it before, so that it is there as a rule.
        self.reached = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r})"

    @abstractmethod
    def apply(self, name: str, operation: Operation[A], quiet: float) -> A:
        """
        Do something with a schedule, in one step that nothing comes between; it may block.

        :param name: the schedule's name.
        :param operation: what to do.
        :param quiet: seconds before the first slot, where the store has to begin the schedule or may have lost part.
        :returns: the answer.
        :raises RateStoreError: where the store cannot be used.
        """

    def ask(self, name: str, operation: Operation[A], quiet: float) -> Conversation[A]:
        """
        Do something with a schedule without blocking an event loop.

        :param name: the schedule's name.
        :param operation: what to do.
        :param quiet: as in :meth:`apply`.
        :returns: a conversation whose result is the answer.
        """
        answer: A = yield Blocking(lambda: self.apply(name, operation, quiet))
        self.reached = True
        return answer

    @abstractmethod
    def close(self) -> None:
        """Close what this process has open; the next use opens it again."""


class PerProcess(Generic[T]):
    """
    Something that each process has of its own, because it does not survive a fork.

    :param make: makes one, when a process first asks.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        # What a parent process has left here stays untouched: closing it could take it from the parent.
        self._by_process: dict[int, T] = {}

    def get(self) -> T:
        """Give that of this process."""
        process = os.getpid()
        try:
            return self._by_process[process]
        except KeyError:
            return self._by_process.setdefault(process, self._make())

    def pop(self) -> T | None:
        """Take out that of this process, if there is one; the next is made anew."""
        return self._by_process.pop(os.getpid(), None)


@dataclass(slots=True)
class _Memory:
    schedules: dict[str, Schedule] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class MemoryStore(RateStore):
    """
    Keeps schedules in the memory of one process; nothing is shared with another.

    :param clock: where time comes from.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__("memory://")
        self._clock = clock or Clock()
        self._memory = PerProcess(_Memory)

    def apply(self, name: str, operation: Operation[A], quiet: float) -> A:
        """Do something with a schedule; one that begins gives its first slot at once, for nothing can be lost here."""
        memory = self._memory.get()
        with memory.lock:
            schedule, answer = applied(operation, memory.schedules.get(name), self._clock.monotonic())
            memory.schedules[name] = schedule
        return answer

    def ask(self, name: str, operation: Operation[A], quiet: float) -> Conversation[A]:
        """Do something with a schedule; it takes no time, so nothing has to be waited for."""
        yield from ()
        return self.apply(name, operation, quiet)

    def close(self) -> None:
        """Forget all schedules."""
        self._memory.pop()
