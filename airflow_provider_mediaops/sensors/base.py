"""Base class for the sensors: one wait in poke, reschedule and deferrable form, and one way to end."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_provider_mediaops.arguments import read_identifier
from airflow_provider_mediaops.task_failure import PERMANENT, ending_task, is_templated, use_retry_policy
from airflow_provider_mediaops.task_stop import StoppableTask
from airflow_provider_mediaops.triggers.deferral import (
    deferral_timeout,
    is_over_execution_timeout,
    read_deferrable,
)
from airflow_provider_mediaops.triggers.event import value_of
from airflow_provider_mediaops.version_compat import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferralError,
    TaskDeferralTimeout,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from airflow_provider_mediaops.hooks.base import ServiceHook
    from airflow_provider_mediaops.http.exchange import Wait
    from airflow_provider_mediaops.waiting import Later, Progress
    from airflow_provider_mediaops.watch import Done, Watch

# The argument in messages; each sensor has a name of its own for it.
_CONN_ID = "the id of the connection"
# The time limit of the reading before a deferral: it may have to wait for its turn in the key's rate.
_FIRST_READING_SECONDS = 5.0
# A reading is given up this much after the sensor's timeout, so that Airflow sees that it has passed.
_JUST_PAST_SECONDS = 0.1


class ServiceSensor(StoppableTask, BaseSensorOperator):
    """
    Waits for something at a service.

    While the service cannot be reached, or refuses for a time, the wait continues until ``timeout``. A permanent error,
    for example wrong credentials, fails the task at once; with ``never_fail`` it is skipped instead, after the error
    was logged. ``soft_fail`` makes a skip of the timeout only, so that it hides no such error.

    :param conn_id: the connection's id.
    :param deferrable: whether to wait in the triggerer, which holds no worker slot; the default is that of
        ``[operators] default_deferrable``.
    :param kwargs: those of ``BaseSensorOperator``: ``poke_interval``, ``timeout``, ``mode``, ``soft_fail``, …
    """

    def __init__(self, *, conn_id: str, deferrable: bool | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not is_templated(conn_id):
            read_identifier(_CONN_ID, conn_id)
        self.conn_id = conn_id
        self.deferrable = read_deferrable(deferrable)
        self._hook: ServiceHook | None = None
        self._pause = 0.0
        self._start_after = 0.0
        self._gave_up: Callable[[Wait], None] | None = None
        self._deadline = float("inf")
        use_retry_policy(self)

    @abstractmethod
    def make_hook(self) -> ServiceHook:
        """Make the hook of the connection."""

    @abstractmethod
    def make_watch(self) -> Watch:
        """Return the condition that the rendered arguments describe; raise ValueError if they are wrong."""

    @abstractmethod
    def make_trigger(self) -> BaseTrigger:
        """Make the trigger that waits in this sensor's place."""

    def looks_first(self) -> bool:
        """Return whether the deferrable form makes one reading in the worker before it defers."""
        return True

    def trigger_arguments(self) -> dict[str, Any]:
        """Return the trigger's arguments: plain values, with the watch as its fields."""
        return {
            "conn_id": read_identifier(_CONN_ID, self.conn_id),
            "watch": asdict(self.make_watch()),
            "poke_interval": self.poke_interval,
            "exponential_backoff": self.exponential_backoff,
            "max_wait": self.max_wait.total_seconds() if self.max_wait else None,
            "silent_fail": self.silent_fail,
            "start_after": self._start_after,
            "failures": self._progress.failures,
            "answered": self._progress.answered,
        }

    def execute(self, context: Context) -> Any:
        """Wait here, or hand the wait to the triggerer."""
        with self._ending():
            with self._logging_errors():
                # Rendered arguments that are wrong end the task at once in every form, with silent_fail, too.
                self.trigger_arguments()
            if not self.deferrable:
                self._deadline = time.monotonic() + self._time_left(context) + _JUST_PAST_SECONDS
                # Airflow's own loop sleeps between two pokes, except in reschedule mode.
                with nullcontext() if self.reschedule else self.stop.interruptible():
                    return super().execute(context)
            return self._defer_unless_there(context)

    def _defer_unless_there(self, context: Context) -> Any:
        started = time.monotonic()
        # A condition that is already met needs no deferral, and wrong credentials fail at once.
        if self.looks_first() and not self.silent_fail:
            self._deadline = time.monotonic() + _FIRST_READING_SECONDS
            given_up: list[Wait] = []
            self._gave_up = given_up.append
            found = self.poke(context)
            if isinstance(found, PokeReturnValue):
                return found.xcom_value
            self._start_after = max(self.poke_interval, self._pause)
            if given_up:
                # It has seen nothing, so the triggerer looks as soon as it may.
                self._start_after = given_up[0].seconds
        limit = deferral_timeout(self, started, self.timeout)
        return self.defer(trigger=self.make_trigger(), method_name="execute_complete", timeout=limit)

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> Any:
        """Return the trigger's result, or raise its typed error."""
        with self._logging_errors():
            return value_of(event)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume after the triggerer, and end as the other forms do."""
        with self._ending():
            try:
                # Not as every sensor: below 3.2 that knows no soft_fail here, and later it hides a failed trigger.
                return super(BaseSensorOperator, self).resume_execution(next_method, next_kwargs, context)
            except TaskDeferralTimeout as error:
                if is_over_execution_timeout(self, self.timeout):
                    raise AirflowTaskTimeout(f"The wait took longer than {self.execution_timeout}.") from error
                message = f"Sensor has timed out; it waited for longer than its timeout of {self.timeout:g} seconds."
                raise AirflowSensorTimeout(message) from error

    def poke(self, context: Context) -> PokeReturnValue | bool:
        """Make one reading, and more while they are due within seconds; an error that may pass counts as not there."""
        with self.stop.uninterruptible():
            return self._poke()

    @cached_property
    def _progress(self) -> Progress:
        # Made at first use: the constructor runs where DAG files are parsed, and the copies of a task share none.
        from airflow_provider_mediaops.waiting import Progress

        return Progress(self._log_line)

    def _poke(self) -> PokeReturnValue | bool:
        from airflow_provider_mediaops.watch import Done

        with self._logging_errors():
            outcome = self._read()
        self._pause = 0.0
        if isinstance(outcome, Done):
            return PokeReturnValue(is_done=True, xcom_value=self.make_watch().result(outcome.value))
        if outcome is None:
            self._progress.log_state(None, logging.INFO, "Waiting: the reading would have had to wait for too long")
        elif self._progress.failures:
            self._pause = outcome.seconds
        return False

    def _read(self) -> Done | Later | None:
        from airflow_provider_mediaops.waiting import OwnReadings, Pace, until, wait

        if self._hook is None:
            self._hook = self.make_hook().stopped_by(self.stop)
        hook, watch = self._hook, self.make_watch()
        poke = wait(
            OwnReadings(lambda: watch.look(hook.service.ask)),
            watch.judge(time.monotonic),
            Pace(self.poke_interval, silent_fail=self.silent_fail, may_return=watch.may_return),
            self._progress,
            one_poke=True,
        )
        return hook.run(until(self._deadline, poke, time.monotonic, self._gave_up))

    def _log_line(self, level: int, sentence: str) -> None:
        self.log.log(level, "%s", sentence)

    def _time_left(self, context: Context) -> float:
        started = context["ti"].get_first_reschedule_date(context) if self.reschedule else None
        # A process of its own makes each poke: an earlier one got no answer that would have ended the wait.
        self._progress.answered = started is not None
        return self.timeout - ((datetime.now(timezone.utc) - started).total_seconds() if started else 0.0)

    def _get_next_poke_interval(
        self, started_at: datetime | float, run_duration: Callable[[], float], poke_count: int
    ) -> float:
        # A service that asked for a pause is given it, but the time limit is kept to.
        interval: float = super()._get_next_poke_interval(started_at, run_duration, poke_count)
        return max(interval, min(self._pause, self.timeout - run_duration()))

    @contextmanager
    def _logging_errors(self) -> Iterator[None]:
        # The log has the error even if the task is skipped.
        try:
            yield
        except PERMANENT as error:
            # The traceback comes with the task's own failure; a skip needs the sentence only.
            self.log.error("%s: %s", type(error).__name__, error)  # noqa: TRY400
            raise
        except Exception as error:
            if not self.never_fail:
                raise
            # As Airflow's own loop does, which the deferrable form does not run.
            self.log.exception("The sensor is skipped because of never_fail.")
            raise AirflowSkipException(f"Skipped because of never_fail: {error}") from error

    @contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            with ending_task():
                yield
        # In Airflow's own sensors, never_fail covers different errors in each form; here it covers the same in all.
        except (AirflowSensorTimeout, AirflowFailException, TaskDeferralError, *PERMANENT) as error:
            if self.never_fail:
                raise AirflowSkipException(f"Skipped because of never_fail: {error}") from error
            if self.soft_fail and isinstance(error, AirflowSensorTimeout):
                raise AirflowSkipException(f"Skipped because of soft_fail: {error}") from error
            raise
        except AirflowSkipException as error:
            # Airflow skips a task whose execution_timeout passes in the middle of a poke, but fails it in a pause.
            if isinstance(error.__cause__, AirflowTaskTimeout):
                raise error.__cause__ from None
            raise
        finally:
            if self._hook is not None:
                self._hook.close()
                self._hook = None
