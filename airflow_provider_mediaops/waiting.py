"""
Wait at a service until a condition is met.

There is one wait, :func:`wait`, for every form: the sensors in ``poke``, ``reschedule`` and deferrable form, captures
at detection, and the triggers that start DAGs. What it waits for is a :class:`Watch`. :func:`lets_wait` says which
errors do not end it.

It loads no call flows, and has no dataclasses, whose import takes a millisecond each: constructors check with watches.
"""

from __future__ import annotations

import logging
import time
import traceback
from abc import abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

from airflow_provider_mediaops.exceptions import MediaOpsError, NotFoundError, TemporaryError
from airflow_provider_mediaops.json_text import storable

T = TypeVar("T")

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow

    # Waits for a pause in seconds, then makes a reading; raises a MediaOpsError if the service fails, a TemporaryError
    # if the reading would come more than LATE_SECONDS after the deadline, on the clock of whoever waits.
    Readings = Callable[[float, float], CallFlow[T]]

#: The longest time for which a wait uses a connection without reading it again, and follows a ``Retry-After``.
LONGEST_WITHOUT_NEWS_SECONDS = 300.0
# The minimum pause after a failure, however short the interval, and of one that grows.
_MIN_PAUSE_SECONDS = 1.0
#: So long after the end of a wait, a reading may still wait for its turn in the key's rate, or for others' reply.
LATE_SECONDS = 30.0
# A reading so shortly before the time limit is at the limit: timers and clocks are no more exact.
_TOLERANCE_SECONDS = 0.1
# Of the last failure, in an event of a trigger.
_LONGEST_FAILURE = 500


class Waiting(NamedTuple):
    """The verdict that the condition is not met yet."""

    seen: str = ""  # the observed state, for the log; the text stays the same while nothing changes
    within: float | None = None  # the most seconds until the next reading, if the condition may soon be met
    remark: str = ""  # a part of the condition that cannot be observed, for a warning in the log
    lack: str = ""  # why the reading does not show whether the condition is met; empty if it does


class Done(NamedTuple):
    """The verdict that the condition is met."""

    value: Any
    remark: str = ""  # as for :class:`Waiting`
    seen: str = ""  # what was seen, for the log, in words that stay the same while nothing changes; empty for no line


Verdict = Waiting | Done


class Watch(Protocol):
    """The condition that a sensor waits for, shared by ``poke`` and the trigger: a dataclass of plain values."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    #: Whether something that is not found any more may come back, as a node does that restarts.
    may_return: ClassVar[bool] = False

    @classmethod
    def check(cls, given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
        """Check the fields that are known; raise InvalidArgumentError for one that cannot be used."""
        if not is_unknown(*given.values()):
            cls(**given)

    @property
    def decides_at_once(self) -> bool:
        """Whether a single reading can show that the condition is met."""
        return True

    @abstractmethod
    def look(self, ask: Ask) -> CallFlow[Any]:
        """Return a call flow that makes one reading; it raises a MediaOpsError if the service fails."""

    def judge(self, monotonic: Callable[[], float]) -> Callable[[Any], Verdict]:
        """Return the function that judges readings, of which None failed; here, the readings are verdicts."""
        return _given

    def result(self, value: Any) -> Any:
        """Return the sensor's result, small enough for XCom, from the value of the verdict."""
        return value


def _given(verdict: Verdict | None) -> Verdict:
    return verdict or Waiting()


class Later(NamedTuple):
    """The end of a single poke, with the pause until the next one."""

    seconds: float


class Term(NamedTuple):
    """The time of a wait, by a monotonic clock: no pause goes beyond its end, and the last reading begins then."""

    monotonic: Callable[[], float]
    began: float
    deadline: float = float("inf")

    @property
    def elapsed(self) -> float:
        """The seconds since the beginning."""
        return self.monotonic() - self.began

    @property
    def left(self) -> float:
        """The seconds until the end; 0 if it has come."""
        left = self.deadline - self.monotonic()
        return left if left > _TOLERANCE_SECONDS else 0.0

    @classmethod
    def of_dates(cls, monotonic: Callable[[], float], began: float, deadline: float) -> Term:
        """Return a term on a clock of this process, from two times in seconds since 1970."""
        ahead = monotonic() - time.time()
        return cls(monotonic, began + ahead, deadline + ahead)


class Pace(NamedTuple):
    """The pauses between readings, and the errors that differ between waits."""

    interval_seconds: float  # the usual pause
    exponential: bool = False  # whether the pause doubles with each reading
    longest_seconds: float | None = None  # of a growing pause; None for no bound
    silent_fail: bool = False  # whether every error is only logged
    may_return: bool = False  # whether something that is not found any more may come back, as a node does that restarts

    def pause(self, elapsed: float, within: float | None = None) -> float:
        """
        Return the pause after a reading.

        It needs no count of the readings, which a rescheduled task does not have: a pause that doubles each time is as
        long as all before it, the seconds ``elapsed``, and the interval. It is ``within`` at most.
        """
        pause = self.interval_seconds
        if self.exponential:
            pause = max(pause, _MIN_PAUSE_SECONDS) + elapsed
            pause = pause if self.longest_seconds is None else min(pause, self.longest_seconds)
        return pause if within is None else min(pause, within)

    def after_failure(self, elapsed: float, retry_after: float | None, within: float | None = None) -> float:
        """
        Return the pause after a reading that failed: the same, and at least a second.

        The seconds that the service asked for, if any, are waited for five minutes at most.
        """
        asked = min(retry_after or 0.0, LONGEST_WITHOUT_NEWS_SECONDS)
        return max(self.pause(elapsed, within), _MIN_PAUSE_SECONDS, asked)


class Progress:
    """The progress of a wait, which a later part of it resumes."""

    def __init__(self, log: Callable[[int, str], None], *, answered: bool = False) -> None:
        self.log = log
        self.answered = answered
        self._told: dict[str, object] = {}
        # A triggerer that restarts, and each poke of a rescheduled task, count anew.
        self._since = datetime.now(timezone.utc)
        self._readings = 0
        self._failed = 0
        self._last_failure = ""

    def count(self, failure: str = "") -> None:
        """Count a reading, and with the reason one that does not show whether the condition is met."""
        self._readings += 1
        if failure:
            self._failed += 1
            self._last_failure = failure

    @property
    def none_worked(self) -> bool:
        """Whether no reading has shown whether the condition is met."""
        return self._failed == self._readings

    @property
    def failed_readings(self) -> str:
        """How many readings have failed, since when, and why the last one did, in words; empty if none has."""
        if not self._failed:
            return ""
        how_many = (
            "no reading worked" if self.none_worked else f"{self._failed:,} of {self._readings:,} readings failed"
        )
        last = storable(self._last_failure, _LONGEST_FAILURE)
        return f"{how_many} since {self._since:%Y-%m-%d %H:%M:%S} UTC. The last error: {last}"

    def tell(self, about: str, state: object, level: int, sentence: str) -> None:
        """Log a sentence about something, unless its state is empty, or the one that was told last."""
        if state and state != self._told.get(about):
            self.log(level, sentence)
        self._told[about] = state


def lets_wait(error: Exception, pace: Pace, progress: Progress) -> bool:
    """Return whether a wait goes on after an error of a reading, in every form; if not, the error ends it."""
    if pace.silent_fail or isinstance(error, TemporaryError):
        # Rate limits and quotas, 5xx, timeouts, broken connections.
        return True
    # Nodes that have answered exist: they may be restarting. Nodes that never have are probably misspelt. All others
    # stay: credentials, rights, arguments, connections, undocumented replies, and errors of this package.
    return isinstance(error, NotFoundError) and pace.may_return and progress.answered


def wait(
    readings: Readings[T],
    judge: Callable[[T | None], Verdict],
    pace: Pace,
    progress: Progress,
    term: Term,
    *,
    first_pause: float = 0.0,
    one_poke: bool = False,
) -> CallFlow[Done | Later | None]:
    """
    Make readings until a condition is met, the last one at the deadline.

    ``judge`` returns the verdict of a reading; None stands for one that failed, which meets no condition. Each change
    of state is logged once. With ``one_poke``, the wait ends at the first pause, unless the next reading is due within
    a time of its own.

    The result is the verdict, the pause after one poke, or None if the deadline has come.
    """
    from airflow_provider_mediaops.http.exchange import NoTurnError

    pause = first_pause
    while True:
        within = None
        try:
            outcome = judge((yield from readings(min(pause, term.left), term.deadline)))
        except NoTurnError as error:
            pause = min(error.retry_after or term.left, term.left)
            progress.count(error.message)
            progress.tell("state", "no turn", logging.INFO, f"Waiting {pause:.0f} s: {error.message}")
        except Exception as error:
            if not lets_wait(error, pace, progress):
                raise
            if isinstance(error, MediaOpsError):
                asked, level, reason = error.retry_after, logging.WARNING, error.message
                progress.count(reason)
                failed = judge(None)
                within = failed.within if isinstance(failed, Waiting) else None
            else:
                # The judge may be what failed.
                asked, level, reason = None, logging.ERROR, f"an unexpected error:\n{_traceback_of(error)}"
                progress.count(f"an unexpected {type(error).__name__}")
            pause = min(pace.after_failure(term.elapsed, asked, within), term.left)
            # Once per kind of error: a service that is down for hours would fill the log.
            progress.tell("state", type(error), level, f"Trying again in {pause:.0f} s: {reason}")
        else:
            progress.tell("remark", outcome.remark, logging.WARNING, outcome.remark)
            progress.count("" if isinstance(outcome, Done) else outcome.lack)
            if isinstance(outcome, Done):
                # What follows may fail, and wait again.
                progress.tell("success", outcome.seen, logging.INFO, f"Seen: {outcome.seen}")
                return outcome
            progress.answered = True
            progress.tell("success", "", logging.INFO, "")
            within = outcome.within
            pause = min(pace.pause(term.elapsed, within), term.left)
            progress.tell("state", outcome.seen, logging.INFO, f"Waiting: {outcome.seen}")
        if not term.left:
            return None
        if one_poke and within is None:
            return Later(pause)


def _traceback_of(error: Exception) -> str:
    return "".join(traceback.format_exception(error)).rstrip()
