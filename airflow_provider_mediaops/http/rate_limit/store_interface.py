"""The interface of the stores of schedules, and what they share."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.exchange import Blocking
from airflow_provider_mediaops.http.rate_limit.operations import Release, Reserve
from airflow_provider_mediaops.http.rate_limit.schedule import Slot

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import Conversation
    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation
    from airflow_provider_mediaops.http.rate_limit.schedule import Schedule

T = TypeVar("T")


class Reading(NamedTuple):
    """
    A schedule as it was read, and when.

    :param schedule: the schedule.
    :param now: the time on the store's clock.
    """

    schedule: Schedule
    now: float


class RateStore(ABC):
    """
    Keeps the schedules of keys, by name, for all who use the store.

    :param where: its address, free of credentials.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        #: The secret parts of its address, which must not be shown.
        self.secrets: tuple[str, ...] = ()
        #: Whether this process has used it before, so that an error may pass.
        self.reached = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r})"

    @abstractmethod
    def apply(self, name: str, operation: Operation[A], cooldown: float) -> A:
        """
        Apply an operation to a schedule, in one step that nothing comes between. It may block.

        :param name: the schedule's name.
        :param operation: the operation.
        :param cooldown: seconds before the first slot, if the store begins the schedule or may have lost part of it.
        :returns: the answer.
        :raises RateStoreError: if the store cannot be used.
        """

    def ask(self, name: str, operation: Operation[A], cooldown: float) -> Conversation[A]:
        """
        Apply an operation without blocking an event loop.

        :param name: the schedule's name.
        :param operation: the operation.
        :param cooldown: as in :meth:`apply`.
        :returns: a conversation whose result is the answer.
        """
        call = _Call(self, name, operation, cooldown)
        try:
            answer: A = yield Blocking(call)
        except GeneratorExit:
            call.abandon()
            raise
        self.reached = True
        return answer

    def release(self, name: str, operation: Release, cooldown: float) -> None:
        """
        Return the slot of a cancelled caller, without waiting and without an error.

        A slot that cannot be returned at once passes unused.

        :param name: the schedule's name.
        :param operation: the slot.
        :param cooldown: as in :meth:`apply`.
        """
        with suppress(RateStoreError):
            self.apply(name, operation, cooldown)

    @abstractmethod
    def read(self, name: str) -> Reading | None:
        """
        Read a schedule and leave it as it is. It may block.

        :param name: the schedule's name.
        :returns: the schedule; None if the store has none, or a damaged one.
        :raises RateStoreError: if the store cannot be used.
        """

    @abstractmethod
    def names(self) -> list[str]:
        """
        Return the names of all schedules, in order. It may block.

        :raises RateStoreError: if the store cannot be used.
        """

    @abstractmethod
    def forget(self, name: str) -> None:
        """
        Remove a schedule: callers that wait for a slot reserve another, as if the key had not been used before.

        :param name: the schedule's name.
        :raises RateStoreError: if the store cannot be used.
        """

    @abstractmethod
    def close(self) -> None:
        """Close what this process has open; the next use opens it again."""


class _Call(Generic[T]):
    """An operation in a thread. If its caller is cancelled meanwhile, its slot is returned."""

    def __init__(self, store: RateStore, name: str, operation: Operation[T], cooldown: float) -> None:
        self._store, self._name, self._operation, self._cooldown = store, name, operation, cooldown
        self._is_abandoned = False
        # The one that pops the answer returns the slot: the thread, or the cancelled caller.
        self._answers: list[T] = []

    def __call__(self) -> T:
        answer = self._store.apply(self._name, self._operation, self._cooldown)
        self._answers.append(answer)
        if self._is_abandoned:
            self._release()
        return answer

    def abandon(self) -> None:
        """Return the slot that the operation has reserved, or will."""
        self._is_abandoned = True
        self._release()

    def _release(self) -> None:
        with suppress(IndexError):
            answer = self._answers.pop()
            if isinstance(answer, Slot) and isinstance(self._operation, Reserve):
                self._store.release(self._name, Release(self._operation.gap, answer), self._cooldown)


class PerProcess(Generic[T]):
    """
    One object for each process, because it does not survive a fork.

    :param make: makes the object of a process, at its first use.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        # The object of a parent process stays untouched: closing it could take it from the parent.
        self._by_process: dict[int, T] = {}

    def get(self) -> T:
        """Return the object of this process."""
        process = os.getpid()
        try:
            return self._by_process[process]
        except KeyError:
            return self._by_process.setdefault(process, self._make())

    def pop(self) -> T | None:
        """Remove and return the object of this process, if there is one; the next use makes another."""
        return self._by_process.pop(os.getpid(), None)
