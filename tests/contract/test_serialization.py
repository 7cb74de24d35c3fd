"""What Airflow writes down of a DAG with the provider's tasks, and what it makes of that."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from airflow.models.serialized_dag import SerializedDagModel
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.bases.sensor import BaseSensorOperator

from airflow_provider_mediaops.get_provider_info import get_provider_info
from airflow_provider_mediaops.sensors.base import ServiceSensor
from tests.contract.serialized import SERIALIZATION, written
from tests.contract.tasks import SENSORS, TASKS, Task, name_of


def read(data: dict[str, Any]) -> Any:
    return SERIALIZATION.from_dict(data)


def public_classes(kind: str) -> set[type]:
    modules = [importlib.import_module(name) for entry in get_provider_info()[kind] for name in entry["python-modules"]]
    return {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseOperator) and value.__module__ == module.__name__
    }


def test_the_cases_are_all_operators_and_sensors() -> None:
    found = public_classes("operators") | public_classes("sensors")
    assert {task.kind for task in TASKS} == found
    assert {task.kind for task in SENSORS} == {kind for kind in found if issubclass(kind, ServiceSensor)}


@pytest.mark.parametrize("task", TASKS, ids=name_of)
def test_a_task_survives_writing_and_reading(task: Task) -> None:
    with DAG("contract", schedule=None) as dag:
        made = task.make()
    again = read(written(dag)).get_task("task")
    assert again.task_type == task.kind.__name__
    assert again._task_module == task.kind.__module__  # noqa: SLF001 - workers go by it, nothing public shows it
    assert list(again.template_fields) == list(made.template_fields)
    for field in made.template_fields:
        # Of what is not text, list or dictionary Airflow keeps the text; and of a tuple a list.
        value = getattr(made, field)
        assert getattr(again, field, None) in (list(value) if isinstance(value, tuple) else value, str(value))


@pytest.mark.parametrize("task", TASKS, ids=name_of)
def test_a_task_is_the_same_in_each_parse(task: Task) -> None:
    """Anything that differs would make a new version of the DAG of every parse."""
    hashes = set()
    for _ in range(2):
        with DAG("contract", schedule=None) as dag:
            task.make()
        hashes.add(SerializedDagModel.hash(written(dag)))
    assert len(hashes) == 1


@pytest.mark.parametrize("task", TASKS, ids=name_of)
def test_a_mapped_task_survives_writing_and_reading(task: Task) -> None:
    with DAG("contract", schedule=None) as dag:
        rest = {name: value for name, value in task.arguments.items() if name not in task.mapped}
        task.kind.partial(task_id="task", **rest).expand(**task.mapped)
    again = read(written(dag)).get_task("task")
    assert again.is_mapped
    assert again.task_type == task.kind.__name__
    assert set(again.template_fields) == set(task.kind.template_fields)
    # The scheduler makes the instances of what it read.
    assert again.get_parse_time_mapped_ti_count() == 2


@pytest.mark.parametrize("task", SENSORS, ids=name_of)
@pytest.mark.parametrize("how", [{}, {"mode": "reschedule"}, {"deferrable": True}], ids=["poke", "reschedule", "defer"])
def test_airflow_knows_a_sensor_and_its_form(task: Task, how: dict[str, Any]) -> None:
    with DAG("contract", schedule=None) as dag:
        made = task.make(**how)
    assert isinstance(made, BaseSensorOperator)
    again = read(written(dag)).get_task("task")
    # The scheduler brings a rescheduled sensor back only if it knows of it.
    assert again.reschedule is (how.get("mode") == "reschedule")
    # Its limits and its first reading would be passed over: see docs/guides/waiting.md.
    assert again.start_from_trigger is False
    assert "ReadyToRescheduleDep" in {type(dep).__name__ for dep in again.deps}
