"""
Wait at a service until a condition is met.

There is one wait, :func:`wait`, for every form: the sensors in ``poke``, ``reschedule`` and deferrable form, captures
at detection, and the triggers that start DAGs. :data:`RULES` is the table of the errors that end it.
"""

from __future__ import annotations

import logging
import time
import traceback
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from airflow_provider_mediaops.exceptions import (
    LONGEST_RETRY_AFTER_SECONDS,
    MediaOpsError,
    NotFoundError,
    TemporaryError,
)
from airflow_provider_mediaops.http.exchange import Wait, observed
from airflow_provider_mediaops.watch import Done, Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mediaops.http.exchange import Conversation, Step
    from airflow_provider_mediaops.watch import Verdict

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# The minimum pause after a failure, however short the interval.
_MIN_PAUSE_AFTER_FAILURE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Later:
    """
    The end of a single poke.

    :param seconds: the pause until the next one.
    """

    seconds: float


class Readings(Protocol[T_co]):
    """The source of a wait's readings."""

    def next(self, pause: float, deadline: float) -> Conversation[T_co | None]:
        """
        Wait, then make a reading.

        :param pause: seconds to wait first; 0 reads at once.
        :param deadline: the end of the wait, on the clock of whoever waits.
        :returns: a conversation with the reading; None if the deadline comes first.
        :raises MediaOpsError: if the service fails.
        """
        ...


@dataclass(frozen=True, slots=True)
class OwnReadings(Generic[T]):
    """
    Readings that are shared with nobody.

    :param read: returns a conversation that makes one reading.
    :param monotonic: returns seconds that never run backwards.
    """

    read: Callable[[], Conversation[T]]
    monotonic: Callable[[], float] = time.monotonic

    def next(self, pause: float, deadline: float) -> Conversation[T | None]:
        """Wait, then make a reading; see :meth:`Readings.next`."""
        if self.monotonic() > deadline:
            return None
        return (yield from until(deadline, self._reading(pause), self.monotonic))

    def _reading(self, pause: float) -> Conversation[T]:
        if pause:
            # No reason: a line in the log for each pause of a long wait would hide the changes.
            yield Wait(pause)
        return (yield from self.read())


class Waits(Enum):
    """When a wait goes on after an error."""

    ALWAYS = "always"
    ONCE_ANSWERED = "if the nodes have answered before in this wait"
    SILENT_FAIL = "with silent_fail"


@dataclass(frozen=True, slots=True)
class Rule:
    """
    One row of the table of errors.

    :param error: the class of the errors.
    :param waits: when the wait goes on. If it does not, it raises the error.
    :param level: the level of the line in the log if it goes on.
    """

    error: type[Exception]
    waits: Waits
    level: int = logging.WARNING

    def lets_wait(self, pace: Pace, progress: Progress) -> bool:
        """Return whether the wait goes on."""
        if self.waits is Waits.ONCE_ANSWERED and pace.may_return and progress.answered:
            return True
        return self.waits is Waits.ALWAYS or pace.silent_fail


#: What the errors of a reading do to a wait, in every form: the first row that fits counts.
RULES = (
    # Rate limits and quotas, 5xx, timeouts, broken connections.
    Rule(TemporaryError, Waits.ALWAYS),
    # Nodes that have answered exist: they may be restarting. Nodes that never have are probably misspelt.
    Rule(NotFoundError, Waits.ONCE_ANSWERED),
    # Credentials, rights, bad arguments and connections, replies that are not as documented.
    Rule(MediaOpsError, Waits.SILENT_FAIL),
    # An error of this package: the task's own retries follow.
    Rule(Exception, Waits.SILENT_FAIL, logging.ERROR),
)


@dataclass(frozen=True, slots=True)
class Pace:
    """
    The pauses between readings, and the errors that differ between waits.

    :param interval_seconds: the usual pause.
    :param exponential: whether the pause doubles with each reading.
    :param longest_seconds: the upper bound of a growing pause; None for no bound.
    :param silent_fail: whether every error is only logged.
    :param may_return: whether something that is not found any more may come back, as a node does that restarts.
    """

    interval_seconds: float
    exponential: bool = False
    longest_seconds: float | None = None
    silent_fail: bool = False
    may_return: bool = False

    def after_reading(self, readings: int, within: float | None = None) -> float:
        """
        Return the pause after a reading that the service answered.

        :param readings: the number of readings so far, at least 1.
        :param within: the maximum, if there is one.
        :returns: seconds.
        """
        pause = self.interval_seconds
        if self.exponential:
            pause = max(pause, 1.0) * 2.0 ** min(readings - 1, 60)
            pause = pause if self.longest_seconds is None else min(pause, self.longest_seconds)
        return pause if within is None else min(pause, within)

    def after_failure(self, failures: int, retry_after: float | None, within: float | None = None) -> float:
        """
        Return the pause after a reading that failed.

        :param failures: the number of failures in a row, at least 1.
        :param retry_after: the seconds that the service asked for, if any; followed for a day at the most.
        :param within: the maximum of the growing pause, if there is one.
        :returns: seconds; without a maximum never less than the interval, and growing to eight times of it.
        """
        pause = max(self.interval_seconds, _MIN_PAUSE_AFTER_FAILURE_SECONDS) * 2.0 ** min(failures - 1, 3)
        pause = pause if within is None else min(pause, within)
        return max(pause, min(retry_after or 0.0, LONGEST_RETRY_AFTER_SECONDS))


@dataclass(slots=True)
class Progress:
    """
    The progress of a wait, which a later part of it resumes.

    :param log: called with a level of :mod:`logging` and a sentence.
    :param readings: the number of readings so far.
    :param failures: the number of readings that failed in a row.
    :param answered: whether the service has answered a reading.
    """

    log: Callable[[int, str], None]
    readings: int = 0
    failures: int = 0
    answered: bool = False
    _state: object = field(default=None, init=False)
    _remark: str = field(default="", init=False)

    def log_state(self, state: object, level: int, sentence: str) -> None:
        """Log a sentence, unless the state is the one that was logged last."""
        if state != self._state:
            self.log(level, sentence)
        self._state = state

    def log_remark(self, remark: str) -> None:
        """Log a remark as a warning, unless it is empty or was the last one, too."""
        if remark and remark != self._remark:
            self.log(logging.WARNING, remark)
        self._remark = remark


def wait(
    readings: Readings[T],
    judge: Callable[[T | None], Verdict],
    pace: Pace,
    progress: Progress,
    *,
    first_pause: float = 0.0,
    deadline: float = float("inf"),
    one_poke: bool = False,
) -> Conversation[Done | Later | None]:
    """
    Make readings until a condition is met.

    :param readings: the source of the readings.
    :param judge: returns the verdict of a reading; None stands for one that failed, which meets no condition.
    :param pace: the pauses between the readings.
    :param progress: the progress so far. Each change of state is logged once.
    :param first_pause: seconds before the first reading.
    :param deadline: the end of the wait, on the clock of the readings.
    :param one_poke: whether to return at the first pause, unless the next reading is due within a time of its own.
    :returns: a conversation with the verdict; the pause after one poke; None if the deadline comes first.
    :raises Exception: an error that ends the wait; see :data:`RULES`.
    """
    pause = first_pause
    while True:
        progress.readings += 1
        try:
            reading = yield from readings.next(pause, deadline)
            if reading is None:
                return None
            outcome = judge(reading)
        except Exception as error:
            rule = next(rule for rule in RULES if isinstance(error, rule.error))
            if not rule.lets_wait(pace, progress):
                raise
            # The judge may be what failed.
            failed = judge(None) if isinstance(error, MediaOpsError) else None
            within = failed.within if isinstance(failed, Waiting) else None
            pause = _pause_after(error, rule, pace, progress, within)
        else:
            progress.answered, progress.failures = True, 0
            progress.log_remark(outcome.remark)
            if isinstance(outcome, Done):
                return outcome
            within = outcome.within
            pause = pace.after_reading(progress.readings, within)
            progress.log_state(outcome.seen, logging.INFO, f"Waiting: {outcome.seen}")
        if one_poke and within is None:
            return Later(pause)


def _pause_after(error: Exception, rule: Rule, pace: Pace, progress: Progress, within: float | None) -> float:
    progress.failures += 1
    asked = error.retry_after if isinstance(error, MediaOpsError) else None
    pause = pace.after_failure(progress.failures, asked, within)
    if isinstance(error, MediaOpsError):
        reason = error.message
    else:
        reason = "an unexpected error:\n" + "".join(traceback.format_exception(error)).rstrip()
    # Once per kind of error: a service that is down for hours would fill the log.
    progress.log_state(type(error), rule.level, f"The wait goes on in {pause:.0f} s: {reason}")
    return pause


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
