"""Tasks that defer: what Airflow's database has of them, and the triggerers that run their triggers."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tests.models.attempts import Attempt, AttemptLoop, take_turn
from tests.unit.sensor_forms import first_event
from tests.unit.storage.dying import DeathError

if TYPE_CHECKING:
    import asyncio

    from airflow.sdk import BaseOperator
    from airflow.triggers.base import BaseTrigger

    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Request, Response
    from tests.airflow_names import TaskDeferred
    from tests.models.attempts import MadeUpClock

#: What goes wrong at a step of a trigger that is told to end.
CANCELLED = "cancelled"
# Shorter waits are within a call, or before its next try.
_WAIT_SECONDS = 1.0
# No call waits so long: a trigger that does is between two attempts.
_LONG_WAIT_SECONDS = 600.0
#: The time limit of the tasks.
EXECUTION_TIMEOUT = timedelta(hours=3)


@dataclass(eq=False)
class Deferral:
    """
    A deferred task, as Airflow's database has it.

    :param row: the class and the arguments of its trigger, as JSON.
    :param method: the name of the method that resumes it.
    :param arguments: the arguments of the method, as JSON.
    :param event: the payload of the first event of its trigger; None before.
    :param is_disturbed: whether something has disturbed the attempts that made it, or that sent its event.
    """

    row: str
    method: str
    arguments: str
    event: Any = None
    is_disturbed: bool = False

    @classmethod
    def of(cls, deferred: TaskDeferred) -> Deferral:
        """Keep what the database does."""
        row, arguments = json.dumps(deferred.trigger.serialize()), json.dumps(deferred.kwargs or {})
        limit = deferred.timeout
        assert limit is not None, "a deferral without a time limit"
        assert timedelta(0) < limit <= EXECUTION_TIMEOUT, f"a deferral of {limit}"
        return cls(row, deferred.method_name, arguments)

    @property
    def waits(self) -> bool:
        """Whether it waits for the event of its trigger."""
        return self.event is None

    def trigger(self) -> BaseTrigger:
        """Make the trigger again, as a triggerer does."""
        path, arguments = json.loads(self.row)
        module, _, name = path.rpartition(".")
        trigger: BaseTrigger = getattr(importlib.import_module(module), name)(**arguments)
        # Without one, it would be in `dag.test()`.
        trigger.trigger_id = 1
        return trigger

    def resume(self, task: BaseOperator, context: Any) -> dict[str, Any]:
        """Resume the task with the event, as a worker does."""
        arguments = {**json.loads(self.arguments), "event": self.event}
        summary: dict[str, Any] = task.resume_execution(self.method, arguments, context)
        return summary


class Triggerer(Attempt):
    """A triggerer that runs the trigger of a deferred task until its first event, which is the result."""

    deferral: Deferral
    _trigger: asyncio.Task[Any]

    def __init__(
        self,
        clock: MadeUpClock,
        task: str,
        client: Client,
        send: Callable[[Request], Response],
        deferral: Deferral,
    ) -> None:
        self.deferral, self.began = deferral, clock.now
        super().__init__(clock, task, client, send, self._event)

    def pause(self) -> str:
        fault = super().pause()
        if fault == CANCELLED:
            self.was_cancelled = True
            self._trigger.cancel()
            return ""
        return fault

    def may_wait(self, seconds: float) -> bool:
        """Let others go on before a wait; return whether it still begins, because nobody has ended the trigger."""
        if seconds < _WAIT_SECONDS or self.is_dead:
            return True
        was_cancelled, self.holds_nothing = self.was_cancelled, seconds >= _LONG_WAIT_SECONDS
        try:
            take_turn()
        except DeathError:
            # What it still does, to its end, changes nothing.
            self._trigger.cancel()
            return False
        self.holds_nothing = False
        return self.was_cancelled == was_cancelled

    def _event(self) -> Any:
        loop = AttemptLoop()
        self._trigger = loop.create_task(first_event(self.deferral.trigger()))
        try:
            return loop.run_until_complete(self._trigger)
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
