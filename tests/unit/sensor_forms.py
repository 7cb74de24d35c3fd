"""A sensor run as Airflow runs it, in each of its three forms: poke, reschedule, deferrable."""

from __future__ import annotations

import asyncio
import importlib
import json
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from tests.airflow_names import AirflowRescheduleException, TaskDeferred
from tests.unit.call_flows import on_a_loop

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

FORMS = ("poke", "reschedule", "deferrable")

_MOST_POKES = 2000


class Attempt:
    """One try of a task, over all its reschedules."""

    def __init__(self) -> None:
        self.started: datetime | None = None

    def get_first_reschedule_date(self, context: Any) -> datetime | None:
        return self.started


def run(make: Callable[..., Any], form: str) -> Any:
    """
    Run a sensor to its end.

    :param form: one of :data:`FORMS`.
    """
    return _deferred(make) if form == "deferrable" else _in_worker(make, form)


def _in_worker(make: Callable[..., Any], mode: str) -> Any:
    attempt = Attempt()
    for _ in range(_MOST_POKES):
        began = datetime.now(timezone.utc)
        try:
            return make(mode=mode).execute({"ti": attempt})
        except AirflowRescheduleException as later:
            attempt.started = attempt.started or began
            time.sleep(max(0.0, (later.reschedule_date - datetime.now(timezone.utc)).total_seconds()))
    raise AssertionError(f"no end after {_MOST_POKES} pokes")


def _deferred(make: Callable[..., Any]) -> Any:
    context: dict[str, Any] = {"ti": Attempt()}
    try:
        return make(deferrable=True).execute(context)
    except TaskDeferred as deferred:
        limit = deferred.timeout.total_seconds() if deferred.timeout else None
        trigger = made_again(deferred.trigger)
        method = deferred.method_name
    try:
        payload = on_a_loop(asyncio.wait_for(first_event(trigger), limit))
    except asyncio.TimeoutError:
        return make(deferrable=True).resume_execution("__fail__", {"error": "Trigger timeout"}, context)
    return make(deferrable=True).resume_execution(method, {"event": payload}, context)


def a_day(interval: float = 60.0) -> dict[str, Any]:
    """Give the time of a trigger's wait, a day from now on, and its pace."""
    return {"pace": {"interval_seconds": interval}, "began": time.time(), "deadline": time.time() + 86_400.0}


def made_again(trigger: BaseTrigger) -> Any:
    """Make a trigger again of what the database keeps of it."""
    path, arguments = trigger.serialize()
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)(**json.loads(json.dumps(arguments)))


async def first_event(trigger: BaseTrigger) -> Any:
    """Give the payload of a trigger's first event."""
    events = trigger.run()
    try:
        return json.loads(json.dumps((await anext(events)).payload))
    finally:
        await events.aclose()  # type: ignore[attr-defined]
