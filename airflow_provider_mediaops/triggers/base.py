"""Base classes for the triggers of tasks: they yield one event, a result or a typed error."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from inspect import Parameter, signature
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError, StorageError, TemporaryError
from airflow_provider_mediaops.hooks.threads import import_in_thread, in_thread
from airflow_provider_mediaops.triggers.deferral import done_event, error_event
from airflow_provider_mediaops.waiting import Done, Pace, Progress, Term, wait

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from airflow_provider_mediaops.hooks.base import ServiceHook
    from airflow_provider_mediaops.waiting import Readings, Watch

# A DAG file is parsed without it, and the event loop does not wait for its import.
_RUN_TIME_MODULES = ("airflow_provider_mediaops.hooks.current",)
_REST = {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}


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
            "The next try of the task makes it anew."
        ) from error


class TaskTrigger(BaseTrigger):
    """
    Base class for triggers that do a task's work or wait, and yield one event.

    An error of a service and one of the storage are typed in the event. Any other error is one of this program: the
    task gets a temporary one, and its traceback is in the triggerer's log. A trigger that is cancelled, because its
    task was marked or cleared or its triggerer ends, yields nothing; every wait, request and lease of it ends with it.

    A constructor takes plain values and never raises, because an exception there stops the whole triggerer.
    """

    #: The minimum time from the trigger's start to its event, in seconds. Airflow may fail a task that resumes sooner:
    #: its executor's late report of the deferral is taken for the end of the resumed task (apache/airflow#71580).
    settled_after: float = 10.0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @abstractmethod
    async def _result(self) -> Any:
        """Return the event's value: plain values, small. Use :func:`reading_row` around the arguments."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which Airflow makes this trigger again."""
        return serialized(self)

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
    :data:`~airflow_provider_mediaops.waiting.RULES` says which errors end the wait; the task gets them. Its arguments
    are the fields of the service's watch and of the wait's pace, and dates in seconds since 1970, so that a restart of
    the triggerer does not prolong the wait.
    """

    #: The hook of the service and its watch, as ``module:class``.
    hook_class: ClassVar[str]
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

    def _make_hook(self) -> ServiceHook:
        """Make the hook of the connection; nothing is fetched yet."""
        hook: ServiceHook = resolve_name(self.hook_class)(self.conn_id)
        return hook

    def _make_watch(self) -> Watch:
        """Make the watch of its fields; raise TypeError or ValueError for those of another version."""
        watch: Watch = resolve_name(self.watch_class)(**self.watch)
        return watch

    async def _result(self) -> Any:
        await import_in_thread(*_RUN_TIME_MODULES)
        with reading_row():
            # In a thread: the first call imports the service's modules.
            watch = await in_thread(self._make_watch)
        return await self._wait(watch)

    async def _wait(self, watch: Watch) -> Any:
        from airflow_provider_mediaops.hooks.current import carried_out

        monotonic = asyncio.get_running_loop().time
        progress = Progress(self.log.log, answered=self.answered)
        with reading_row():
            pace = Pace(**self.pace)
            term = Term.of_dates(monotonic, self.began, self.deadline)
            pause = max(self.first_reading - time.time(), 0.0)
        async with self._readings(watch) as readings:
            judge = watch.judge(monotonic)
            outcome = await carried_out(wait(readings, judge, pace, progress, term, first_pause=pause))
        return watch.result(outcome.value) if isinstance(outcome, Done) else None

    @asynccontextmanager
    async def _readings(self, watch: Watch) -> AsyncIterator[Readings[Any]]:
        from airflow_provider_mediaops.hooks.current import CurrentHook, OwnReadings

        with await in_thread(partial(CurrentHook, self._make_hook, asyncio.get_running_loop().time)) as hook:
            yield OwnReadings(hook, watch.look)


def serialized(trigger: BaseTrigger) -> tuple[str, dict[str, Any]]:
    """
    Return the class of a trigger and its arguments, each of which it keeps in an attribute of the same name.

    Airflow identifies a trigger that watches an asset by a hash of this, so they have the order of the constructor.
    """
    arguments = {name: getattr(trigger, name) for name in _argument_names(type(trigger))}
    return f"{type(trigger).__module__}.{type(trigger).__qualname__}", arguments


def _argument_names(trigger: type[BaseTrigger]) -> list[str]:
    """Return the names of a constructor's arguments, with those of its base class where it passes ``**kwargs`` on."""
    names: list[str] = []
    for kind in trigger.__mro__:
        if "__init__" in vars(kind):
            _self, *parameters = signature(vars(kind)["__init__"]).parameters.values()
            names += [one.name for one in parameters if one.kind not in _REST and one.name not in names]
            if all(one.kind is not Parameter.VAR_KEYWORD for one in parameters):
                break
    return names
