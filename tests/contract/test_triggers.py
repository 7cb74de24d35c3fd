"""Triggers on their way from a worker, over the metadata database, into a triggerer."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from airflow.models.trigger import Trigger
from airflow.providers.common.compat.module_loading import import_string
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk.execution_time import task_runner
from airflow.triggers.base import BaseTrigger

import airflow_provider_mediaops.triggers
from airflow_provider_mediaops.sandbox import books, cluster, video_tokens
from airflow_provider_mediaops.sensors.service import ServiceSensor
from tests.contract.tasks import SENSORS, Task, name_of

if TYPE_CHECKING:
    from collections.abc import Callable


PACKAGE = airflow_provider_mediaops.triggers
ODD = [None, "", "{{ ds }}", 0, -1, 1e400, True, [], [None], {}, {"a": {"b": None}}, b"bytes", object()]
# What only Airflow's own code calls: the test is about just that code.
_defer_task = vars(task_runner)["_defer_task"]
_decode_in_triggerer = getattr(
    importlib.import_module("airflow.serialization.serialized_objects"), "smart_decode_trigger_kwargs", None
) or import_string("airflow.serialization.decoders.smart_decode_trigger_kwargs")


def trigger_classes() -> list[type[BaseTrigger]]:
    names = [module.name for module in pkgutil.iter_modules(PACKAGE.__path__, f"{PACKAGE.__name__}.")]
    return [
        value
        for module in map(importlib.import_module, names)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseTrigger) and value.__module__ == module.__name__
    ]


CONCRETE = [kind for kind in trigger_classes() if not inspect.isabstract(kind)]


def trigger_of(task: Task, **arguments: Any) -> BaseTrigger:
    """Take the trigger that waits in a sensor's place."""
    sensor = task.make(deferrable=True, **arguments)
    assert isinstance(sensor, ServiceSensor)
    return sensor.make_trigger()


def row_of_a_task(trigger: BaseTrigger) -> str:
    """Give the text in the database after a task has deferred: as the worker sends it."""
    instance = SimpleNamespace(dag_id="dag", task_id="task", run_id="run", task=SimpleNamespace(queue="default"))
    deferred = TaskDeferred(trigger=trigger, method_name="execute_complete")
    message, _ = _defer_task(deferred, instance, structlog.get_logger())
    sent = json.loads(message.model_dump_json())["trigger_kwargs"]
    return json.dumps(sent)


def row_of_the_scheduler(trigger: BaseTrigger) -> str:
    """Give the text in the database of a trigger that starts without a task."""
    return Trigger.from_object(trigger).encrypted_kwargs


def in_the_triggerer(classpath: str, row: str) -> BaseTrigger:
    """Make the trigger again as a triggerer does."""
    arguments = Trigger(classpath=classpath, kwargs={})
    arguments.encrypted_kwargs = row
    kind: type[BaseTrigger] = import_string(classpath)
    return kind(**{name: _decode_in_triggerer(value) for name, value in arguments.kwargs.items()})


def test_each_trigger_has_a_sensor_that_makes_it() -> None:
    assert {type(trigger_of(task)) for task in SENSORS} == set(CONCRETE)


@pytest.mark.parametrize("row_of", [row_of_a_task, row_of_the_scheduler])
@pytest.mark.parametrize("task", SENSORS, ids=name_of)
@pytest.mark.parametrize(
    "arguments",
    [{}, {"poke_interval": 0.5, "exponential_backoff": True, "max_wait": 3600, "silent_fail": True}],
    ids=["defaults", "all set"],
)
def test_a_trigger_survives_the_way(
    task: Task, arguments: dict[str, Any], row_of: Callable[[BaseTrigger], str]
) -> None:
    trigger = trigger_of(task, **arguments)
    classpath, values = trigger.serialize()
    again = in_the_triggerer(classpath, row_of(trigger))
    assert type(again) is type(trigger)
    assert again.serialize() == (classpath, values)
    assert set(values) == set(inspect.signature(type(trigger)).parameters)


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("task", SENSORS, ids=name_of)
def test_no_secret_is_on_the_way(task: Task) -> None:
    trigger = trigger_of(task)
    values = trigger.serialize()[1]
    assert values["conn_id"] == task.make().conn_id  # type: ignore[attr-defined]
    for secret in (video_tokens.BEARER_TOKEN, cluster.PASSWORD, books.PRO.key):
        assert secret not in row_of_a_task(trigger)


@pytest.mark.parametrize("kind", CONCRETE)
def test_a_constructor_never_raises(kind: type[BaseTrigger]) -> None:
    """Whatever stands in the row, say of another version: an exception here would stop the whole triggerer."""
    names = list(inspect.signature(kind).parameters)
    good = {"conn_id": "some", "watch": {}}
    for odd in ODD:
        assert kind(**dict.fromkeys(names, odd)).serialize()[1] == dict.fromkeys(names, odd)
        for name in names:
            assert kind(**{**good, name: odd}).serialize()[1][name] is odd
