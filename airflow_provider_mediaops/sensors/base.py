"""Base class for the sensors: one wait in poke, reschedule and deferrable form, and one way to end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from functools import cached_property, partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_provider_mediaops.arguments import read_flag, read_identifier
from airflow_provider_mediaops.task_failure import PERMANENT, StoppableTask, ending_task, is_templated, use_retry_policy
from airflow_provider_mediaops.version_compat import (
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferralTimeout,
    conf,
)
from airflow_provider_mediaops.waiting import Done, Later, Pace, Progress, Term, wait

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mediaops.hooks.base import ServiceHook
    from airflow_provider_mediaops.triggers.base import WatchTrigger
    from airflow_provider_mediaops.waiting import Watch

# The time limit of the reading before a deferral: it may have to wait for its turn in the key's rate.
_FIRST_READING_SECONDS = 5.0


class ServiceSensor(StoppableTask, BaseSensorOperator):
    """
    Waits for something at a service.

    While the service cannot be reached, or refuses for a time, the wait continues until ``timeout``. A permanent error,
    for example wrong credentials, fails the task at once; with ``never_fail`` it is skipped instead, after the error
    was logged. ``soft_fail`` makes a skip of the timeout only, so that it hides no such error.

    :param deferrable: whether to wait in the triggerer, which holds no worker slot; the default is that of
        ``[operators] default_deferrable``.
    :param kwargs: those of ``BaseSensorOperator``: ``poke_interval``, ``timeout``, ``mode``, ``soft_fail``, …
    """

    #: The argument with the connection's id.
    conn_id_field: ClassVar[str]
    #: The condition, as ``module:class``, and the arguments of the sensor that are its fields. Constructors check with
    #: it.
    watch_class: ClassVar[str]
    watch_fields: ClassVar[tuple[str, ...]]
    #: The trigger that waits in this sensor's place, as ``module:class``; it is imported when the task runs.
    trigger_class: ClassVar[str]

    def __init__(
        self,
        *,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deferrable = read_flag("deferrable", deferrable)

    def _check_known(self) -> None:
        """Check the arguments that are not templated, at the end of the constructor."""
        conn_id = getattr(self, self.conn_id_field)
        if not is_templated(conn_id):
            read_identifier(self.conn_id_field, conn_id)
        arguments = self._watch_arguments()
        if is_templated(*arguments.values()):
            resolve_name(self.watch_class).check(arguments, is_templated)
        else:
            self.make_watch()
        use_retry_policy(self)

    def _watch_arguments(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.watch_fields}

    def make_watch(self) -> Any:
        """Make the condition of the rendered arguments; raise ValueError if they are wrong."""
        return resolve_name(self.watch_class)(**self._watch_arguments())

    def _make_hook(self) -> ServiceHook:
        hook_class = resolve_name(resolve_name(self.trigger_class).hook_class)
        hook: ServiceHook = hook_class(getattr(self, self.conn_id_field))
        return hook.stopped_by(self.stop)

    def make_trigger(self, watch: Watch) -> WatchTrigger:
        """Make the trigger that waits in this sensor's place, from now on."""
        began = time.time()
        trigger: WatchTrigger = resolve_name(self.trigger_class)(
            conn_id=read_identifier(self.conn_id_field, getattr(self, self.conn_id_field)),
            watch=asdict(watch),
            pace=self._pace(watch)._asdict(),
            began=began,
            deadline=began + self.timeout,
        )
        return trigger

    def _pace(self, watch: Watch) -> Pace:
        longest = self.max_wait.total_seconds() if self.max_wait else None
        return Pace(self.poke_interval, self.exponential_backoff, longest, self.silent_fail, watch.may_return)

    def execute(self, context: Context) -> Any:
        """Wait here, or hand the wait to the triggerer."""
        from airflow_provider_mediaops.triggers.base import can_defer

        with self._ending():
            # Rendered arguments that are wrong end the task at once in every form, with silent_fail, too.
            watch = self.make_watch()
            with self._make_hook() as hook:
                if self.deferrable and can_defer(self, trigger := self.make_trigger(watch)):
                    return self._defer_unless_there(hook, watch, trigger)
                return self._wait_here(hook, watch, context)

    def _wait_here(self, hook: ServiceHook, watch: Watch, context: Context) -> Any:
        started = context["ti"].get_first_reschedule_date(context) if self.reschedule else None
        # A process of its own makes each poke: an earlier one got no answer that would have ended the wait.
        self._progress.answered = started is not None
        elapsed = time.time() - started.timestamp() if started else 0.0
        outcome = self._look(hook, watch, elapsed, one_poke=self.reschedule)
        if isinstance(outcome, Later):
            raise AirflowRescheduleException(datetime.fromtimestamp(time.time() + outcome.seconds, timezone.utc))
        return self._result(watch, outcome)

    def _defer_unless_there(self, hook: ServiceHook, watch: Watch, trigger: WatchTrigger) -> Any:
        from airflow_provider_mediaops.triggers.base import deferral_timeout

        started = time.monotonic()
        # A condition that is already met needs no deferral, and wrong credentials fail at once.
        if watch.decides_at_once and not self.silent_fail:
            outcome = self._look(hook, watch, 0.0, one_poke=True, longest_wait=_FIRST_READING_SECONDS)
            if not isinstance(outcome, Later):
                return self._result(watch, outcome)
            trigger.first_reading = time.time() + outcome.seconds
            trigger.answered = self._progress.answered
        timeout = deferral_timeout(self, started, self.timeout)
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> Any:
        """Return the trigger's result, or raise its typed error."""
        from airflow_provider_mediaops.triggers.base import failed_readings_of, value_of

        found = value_of(event)
        if found is None:
            raise self._timed_out(failed_readings_of(event))
        return found

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Resume after the triggerer, and end as the other forms do."""
        from airflow_provider_mediaops.triggers.base import is_over_execution_timeout

        with self._ending():
            try:
                # Not as every sensor: below 3.2 that knows no soft_fail here (apache/airflow#61130), and later it hides
                # a failed trigger (apache/airflow#71255).
                return super(BaseSensorOperator, self).resume_execution(next_method, next_kwargs, context)
            except TaskDeferralTimeout as error:
                if is_over_execution_timeout(self, self.timeout):
                    raise AirflowTaskTimeout(f"The wait took longer than {self.execution_timeout}.") from error
                raise self._timed_out() from error

    def poke(self, context: Context) -> PokeReturnValue | bool:
        """Make one reading, and more while they are due within seconds; an error that may pass counts as not there."""
        watch = self.make_watch()
        with self._make_hook() as hook:
            outcome = self._look(hook, watch, 0.0, one_poke=True)
        if not isinstance(outcome, Done):
            return False
        return PokeReturnValue(is_done=True, xcom_value=self._result(watch, outcome))

    @cached_property
    def _progress(self) -> Progress:
        # Made at first use: the constructor runs where DAG files are parsed, and the copies of a task share none.
        return Progress(self.log.log)

    def _look(
        self, hook: ServiceHook, watch: Watch, elapsed: float, *, one_poke: bool, longest_wait: float = math.inf
    ) -> Done | Later | None:
        """Wait in this process, some seconds after the wait began, perhaps only to the first pause."""
        now = time.monotonic()
        looking = wait(
            partial(hook.next_reading, watch.look, time.monotonic, longest_wait=longest_wait),
            watch.judge(time.monotonic),
            self._pace(watch),
            self._progress,
            Term(time.monotonic, now - elapsed, now - elapsed + self.timeout),
            one_poke=one_poke,
        )
        return hook.run(looking)

    def _result(self, watch: Watch, outcome: Done | None) -> Any:
        if outcome is None:
            raise self._timed_out(self._progress.failed_readings)
        return watch.result(outcome.value)

    def _timed_out(self, failed_readings: str = "") -> AirflowSensorTimeout:
        what = f"Sensor has timed out; it found nothing within its timeout of {self.timeout:g} s"
        return AirflowSensorTimeout(f"{what}; {failed_readings}" if failed_readings else f"{what}.")

    @contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            with ending_task():
                try:
                    yield
                except PERMANENT as error:
                    # Also if the task is skipped. The traceback comes with the task's own failure.
                    self.log.error("%s: %s", type(error).__name__, error)  # noqa: TRY400
                    raise
        except AirflowRescheduleException:
            raise
        # In Airflow's own sensors, never_fail covers different errors in each form; here it covers the same in all.
        except Exception as error:
            if self.never_fail:
                if not isinstance(error, (AirflowSensorTimeout, *PERMANENT)):
                    self.log.exception("The sensor is skipped because of never_fail.")
                raise AirflowSkipException(f"Skipped because of never_fail: {error}") from error
            if self.soft_fail and isinstance(error, AirflowSensorTimeout):
                raise AirflowSkipException(f"Skipped because of soft_fail: {error}") from error
            raise
