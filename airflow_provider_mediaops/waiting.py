"""Poll a service until a condition is met: the verdict of one poll, and the pause until the next."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from airflow_provider_mediaops.exceptions import LONGEST_RETRY_AFTER_SECONDS
from airflow_provider_mediaops.http.exchange import Wait, observed

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import Ask, Conversation, Step

T = TypeVar("T")

# The minimum pause after a failure, however short the interval.
_MIN_PAUSE_AFTER_FAILURE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """
    The verdict that the condition is not met yet.

    :param seen: the observed state, for the log; the text stays the same while nothing changes.
    """

    seen: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """
    The verdict that the condition is met.

    :param value: the result of the sensor; plain values, small enough for XCom.
    """

    value: Any


Verdict = Waiting | Done


class Watch(Protocol):
    """The condition that a sensor waits for, shared by ``poke`` and the trigger: a dataclass of plain values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def look(self, ask: Ask) -> Conversation[Verdict]:
        """Ask once and return the verdict; raise a MediaOpsError if the service fails."""
        ...


def until(
    deadline: float,
    conversation: Conversation[T],
    monotonic: Callable[[], float] = time.monotonic,
    gave_up: Callable[[Wait], None] | None = None,
) -> Conversation[T | None]:
    """
    Keep a conversation from waiting past a time limit.

    :param deadline: the time limit, on the clock of ``monotonic``.
    :param conversation: the conversation; it ends at the first wait that would end after the deadline.
    :param monotonic: returns seconds that never run backwards.
    :param gave_up: called with that wait instead of waiting; without it, the conversation waits until the deadline.
    :returns: a conversation with the same result, or None at the deadline.
    """

    def within_the_limit(step: Step) -> None:
        if isinstance(step, Wait) and step.seconds > deadline - monotonic():
            raise _TimeIsUpError(step)

    try:
        return (yield from observed(conversation, within_the_limit))
    except _TimeIsUpError as error:
        if gave_up:
            gave_up(error.wait)
        else:
            yield Wait(max(deadline - monotonic(), 0.0), "the rest of the time limit")
        return None


class _TimeIsUpError(Exception):
    """
    A wait would end after the time limit.

    :param wait: the wait.
    """

    def __init__(self, wait: Wait) -> None:
        super().__init__(wait)
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Pace:
    """
    The pauses between polls.

    :param interval_seconds: the usual pause.
    :param exponential: whether the pause doubles with each poll.
    :param longest_seconds: the upper bound of a growing pause; None for no bound.
    """

    interval_seconds: float
    exponential: bool = False
    longest_seconds: float | None = None

    def after_look(self, looks: int) -> float:
        """
        Return the pause after a poll that the service answered.

        :param looks: the number of polls so far, at least 1.
        :returns: seconds.
        """
        if not self.exponential:
            return self.interval_seconds
        grown = max(self.interval_seconds, 1.0) * 2.0 ** min(looks - 1, 60)
        return grown if self.longest_seconds is None else min(grown, self.longest_seconds)

    def after_failure(self, failures: int, retry_after: float | None) -> float:
        """
        Return the pause after a poll that failed.

        :param failures: the number of failures in a row, at least 1.
        :param retry_after: the seconds that the service asked for, if any; followed for a day at the most.
        :returns: seconds; never less than the interval, and growing to eight times of it.
        """
        grown = max(self.interval_seconds, _MIN_PAUSE_AFTER_FAILURE_SECONDS) * 2.0 ** min(failures - 1, 3)
        return max(grown, min(retry_after or 0.0, LONGEST_RETRY_AFTER_SECONDS))
