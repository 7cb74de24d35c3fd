"""
Base classes for the triggers of tasks, and how a task defers to one and resumes.

A trigger yields one event: a result, or a typed error. What decides whether a task waits in the triggerer, and for how
long at most, and what reads the event, runs in the task. A DAG file is parsed without this module: Airflow's own base
class takes some milliseconds to import.
"""

from __future__ import annotations

import asyncio
import json
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from inspect import signature
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_mediaops.exceptions import (
    InvalidArgumentError,
    InvalidReplyError,
    MediaOpsError,
    PermanentError,
    StorageError,
    TemporaryError,
    error_from_dict,
)
from airflow_provider_mediaops.hooks.threads import in_thread
from airflow_provider_mediaops.waiting import Done, Pace, Progress, Term, wait

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from airflow_provider_mediaops.hooks.base import ServiceHook
    from airflow_provider_mediaops.waiting import Readings, Watch

#: The most bytes of a trigger's arguments. MySQL keeps 65,535, and encryption makes them longer by a third.
MAX_ARGUMENTS_BYTES = 48_000
# Airflow's own limit of a deferral comes so much later than that of the trigger: it is for a triggerer that is gone.
_SLACK_SECONDS = 60.0
# Of the events: a task may resume with another version of the provider than its trigger had.
_VERSION = 1
_FAILED_READINGS = "failed_readings"


@contextmanager
def reading_row() -> Iterator[None]:
    """
    Make objects of a trigger's arguments.

    They were valid when the task deferred, so what this version cannot use was written by another one. That is a
    temporary error: the next try of the task writes another row.
    """
    try:
        yield
    except (TypeError, InvalidArgumentError, LookupError, AttributeError) as error:
        raise TemporaryError(
            f"Another version of this provider made this trigger ({type(error).__name__}: {error}). "
            "The next try of the task creates a new one."
        ) from error


class TaskTrigger(BaseTrigger):
    """
    Base class for triggers that do a task's work or wait, and yield one event.

    An error of a service and one of the storage are typed in the event, and an argument that cannot be used is a
    permanent error. Any other error is one of this program: the task gets a temporary one, and its traceback is in the
    triggerer's log. A trigger that is cancelled, because its task was marked or cleared or its triggerer ends, yields
    nothing; every wait and request of it ends with it.

    A constructor takes plain values and never raises, because an exception there stops the whole triggerer.
    """

    #: The minimum time from the trigger's start to its event, in seconds. Airflow may fail a task that resumes sooner:
    #: its executor's late report of the deferral is taken for the end of the resumed task (apache/airflow#71580).
    settled_after: float = 10.0
    #: The hook of the service, as ``module:class``, and the connection's id.
    hook_class: ClassVar[str]
    conn_id: str

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @abstractmethod
    async def _result(self) -> Any:
        """Return the event's value: plain values, small. Use :func:`reading_row` around the arguments."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which Airflow makes this trigger again."""
        return serialized(self)

    def _make_hook(self) -> ServiceHook:
        """Make the hook of the connection; nothing is fetched yet."""
        hook: ServiceHook = resolve_name(self.hook_class)(self.conn_id)
        return hook

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the result, or the error that ended the work."""
        loop = asyncio.get_running_loop()
        earliest = loop.time() + self.settled_after
        payload = await self._payload()
        # The triggerer gives each trigger its id before it runs; dag.test(), which has no scheduler, gives none.
        if self.trigger_id is not None and (left := earliest - loop.time()) > 0:
            await asyncio.sleep(left)
        yield TriggerEvent(payload)

    async def _payload(self) -> dict[str, Any]:
        try:
            return done_event(await self._result())
        except MediaOpsError as error:
            return error_event(error)
        except InvalidArgumentError as error:
            # What shows at run time only, such as a source: a worker fails at once with it, too.
            return error_event(PermanentError(str(error)))
        except OSError as error:
            return error_event(StorageError(error.strerror or str(error)))
        except Exception as error:
            self.log.exception("The trigger ended with an unexpected error.")
            # The text of the fault may hold anything, so the task gets only its class, and follows its own retries.
            what = f"The trigger ended with an unexpected {type(error).__name__}."
            return error_event(TemporaryError(f"{what} Its traceback is in the triggerer's log."))


class WatchTrigger(TaskTrigger):
    """
    Base class for triggers that wait for a condition at a service and yield one event.

    Its value is the sensor's result; None if the deadline has come without one. It comes without Airflow's own limit of
    a deferral, which is for a triggerer that is gone, and which ``dag.test()`` does not have.
    :func:`~airflow_provider_mediaops.waiting.lets_wait` says which errors end the wait; the task gets them. Its
    arguments are the fields of the service's watch and of the wait's pace, and dates in seconds since 1970, so that a
    restart of the triggerer does not prolong the wait.
    """

    #: The service's watch, as ``module:class``.
    watch_class: ClassVar[str]

    def __init__(
        self,
        *,
        conn_id: str,
        watch: dict[str, Any],
        pace: dict[str, Any],
        began: float,
        deadline: float,
        first_reading: float = 0.0,
        answered: bool = False,
    ) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.watch = watch
        self.pace = pace
        self.began = began
        self.deadline = deadline
        self.first_reading = first_reading
        self.answered = answered
        self._failed_readings = ""

    async def _result(self) -> Any:
        with reading_row():
            # In a thread: the first call imports the service's modules.
            watch: Watch = await in_thread(lambda: resolve_name(self.watch_class)(**self.watch))
            monotonic = asyncio.get_running_loop().time
            pace = Pace(**self.pace)
            term = Term.of_dates(monotonic, self.began, self.deadline)
            pause = max(self.first_reading - time.time(), 0.0)
        progress = Progress(self.log.log, answered=self.answered)
        async with self._readings(watch) as (hook, readings):
            judge = watch.judge(monotonic)
            outcome = await hook.arun(wait(readings, judge, pace, progress, term, first_pause=pause))
        if isinstance(outcome, Done):
            return watch.result(outcome.value)
        self._failed_readings = progress.failed_readings
        return None

    async def _payload(self) -> dict[str, Any]:
        payload = await super()._payload()
        # Beside the value, which is the sensor's result.
        return payload | ({_FAILED_READINGS: self._failed_readings} if self._failed_readings else {})

    @asynccontextmanager
    async def _readings(self, watch: Watch) -> AsyncIterator[tuple[ServiceHook, Readings[Any]]]:
        """Open the hook that carries out the wait, and the readings."""
        with await in_thread(self._make_hook) as hook:
            yield hook, partial(hook.next_reading, watch.look, asyncio.get_running_loop().time)


def serialized(trigger: BaseTrigger) -> tuple[str, dict[str, Any]]:
    """
    Return the class of a trigger and its arguments, each of which it keeps in an attribute of the same name.

    Airflow identifies a trigger that watches an asset by a hash of this, so they have the order of the constructor.
    """
    kind = type(trigger)
    return f"{kind.__module__}.{kind.__qualname__}", {
        name: getattr(trigger, name) for name in signature(kind).parameters
    }


def can_defer(task: BaseOperator, trigger: BaseTrigger) -> bool:
    """Return whether a task can be deferred; if not, its log says why, and it does its work in the worker."""
    size = arguments_bytes(trigger.serialize()[1])
    if size <= MAX_ARGUMENTS_BYTES:
        return True
    task.log.warning(
        "This task is not deferred: the arguments of its trigger have %s bytes, and the databases of Airflow take %s. "
        "It does its work in the worker, and holds a slot meanwhile. Shorten its lists, or divide them between tasks.",
        f"{size:,}",
        f"{MAX_ARGUMENTS_BYTES:,}",
    )
    return False


def arguments_bytes(arguments: dict[str, Any]) -> int:
    """Return the size of a trigger's arguments as Airflow serialises them, before it encrypts them."""
    # Airflow writes JSON in ASCII, as this does.
    return len(json.dumps(arguments))


def deferral_timeout(task: BaseOperator, started: float, own_limit: float | None = None) -> timedelta | None:
    """
    Return how long a task may be deferred; None for no limit.

    Airflow itself keeps ``execution_timeout`` only while a worker has the task, which began to execute at ``started``,
    a time of ``time.monotonic``. The trigger keeps the task's own limit, in seconds; Airflow's comes a minute later.
    """
    own = None if own_limit is None else own_limit + _SLACK_SECONDS
    if task.execution_timeout is None:
        return None if own is None else timedelta(seconds=own)
    left = max(task.execution_timeout.total_seconds() - (time.monotonic() - started), 0.0)
    return timedelta(seconds=left if own is None else min(left, own))


def is_over_execution_timeout(task: BaseOperator, own_limit: float) -> bool:
    """Return whether a deferral that timed out had come to ``execution_timeout``, and not to the task's own limit."""
    return task.execution_timeout is not None and task.execution_timeout.total_seconds() < own_limit + _SLACK_SECONDS


def done_event(value: Any) -> dict[str, Any]:
    """Return the payload of a trigger that has a result: plain values, counts and paths, nothing large."""
    return {"version": _VERSION, "status": "done", "value": value}


def error_event(error: MediaOpsError) -> dict[str, Any]:
    """Return the payload of a trigger that ended with a typed error."""
    return {"version": _VERSION, "status": "error", "error": error.to_dict()}


def value_of(event: object) -> Any:
    """Return the value of an event, or raise its error; called in the task."""
    fields = event if isinstance(event, dict) else {}
    if fields.get("status") == "done":
        return fields.get("value")
    error = fields.get("error")
    if fields.get("status") == "error" and isinstance(error, dict):
        raise error_from_dict(error)
    version = fields.get("version")
    raise InvalidReplyError(f"The trigger sent an event that this version of the provider cannot read ({version=}).")


def failed_readings_of(event: object) -> str:
    """Return how many readings of a trigger's wait failed, in words; empty if none did, or it does not tell."""
    return str(event.get(_FAILED_READINGS) or "") if isinstance(event, dict) else ""
