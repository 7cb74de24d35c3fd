"""Waiting for something at a service: what one look at it says, and how long until the next."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from airflow_provider_mediaops.http.exchange import Wait, observed

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import Ask, Conversation, Step

T = TypeVar("T")

# A failing service is asked at least this far apart, however short the interval.
_LEAST_AFTER_FAILURE = 1.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """
    It is not there yet.

    :param seen: what was seen, in words that stay the same while nothing changes; for the log.
    """

    seen: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """
    It is there.

    :param value: what the sensor returns; plain values, small enough for XCom.
    """

    value: Any


Verdict = Waiting | Done


class Watch(Protocol):
    """What a sensor waits for, in the one form that ``poke`` and the trigger share: a dataclass of plain values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def look(self, ask: Ask) -> Conversation[Verdict]:
        """Look once, and say whether it is there; raise a MediaOpsError where the service did not tell."""
        ...


def until(
    deadline: float,
    conversation: Conversation[T],
    monotonic: Callable[[], float] = time.monotonic,
    gave_up: Callable[[Wait], None] | None = None,
) -> Conversation[T | None]:
    """
    Keep a conversation from waiting past a time limit.

    :param deadline: when to stop, as ``monotonic`` counts.
    :param conversation: what is passed on; it is given up in the wait that would end after the deadline.
    :param monotonic: seconds that never run backwards.
    :param gave_up: is told of that wait; then nothing is waited for. Without it, the rest of the time limit is.
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
    How long to wait between two looks.

    :param interval: seconds, where nothing speaks for another figure.
    :param exponential: whether the interval doubles with each look.
    :param longest: the upper bound of a growing interval in seconds; None for none.
    """

    interval: float
    exponential: bool = False
    longest: float | None = None

    def after_look(self, looks: int) -> float:
        """
        Give the pause after a look that the service answered.

        :param looks: how many looks there have been, at least 1.
        :returns: seconds.
        """
        if not self.exponential:
            return self.interval
        grown = max(self.interval, 1.0) * 2.0 ** min(looks - 1, 60)
        return grown if self.longest is None else min(grown, self.longest)

    def after_failure(self, failures: int, retry_after: float | None) -> float:
        """
        Give the pause after a look that the service did not answer.

        :param failures: how many in a row, at least 1.
        :param retry_after: the seconds that the service asked for, if any.
        :returns: seconds; never less than the interval, and growing to eight times of it.
        """
        grown = max(self.interval, _LEAST_AFTER_FAILURE) * 2.0 ** min(failures - 1, 3)
        return max(grown, retry_after or 0.0)
