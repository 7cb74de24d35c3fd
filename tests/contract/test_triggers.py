"""Triggers on their way from a worker, over the metadata database, into a triggerer."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from airflow.models.trigger import Trigger
from airflow.sdk import DAG, Asset, AssetWatcher
from airflow.sdk.execution_time import task_runner
from airflow.triggers.base import BaseEventTrigger, BaseTrigger

import airflow_provider_mediaops.triggers
from airflow_provider_mediaops.triggers.base import WatchTrigger
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
from tests.airflow_names import TaskDeferred
from tests.contract.tasks import DEFERRING, SENSORS, Task, name_of
from tests.contract.waiting_triggers import trigger_of
from tests.unit.log_lines import log_lines

PACKAGE = airflow_provider_mediaops.triggers
WAITING = [*SENSORS, *DEFERRING]
ODD = [None, "", "{{ ds }}", 0, -1, 1e400, True, [], [None], {}, {"a": {"b": None}}, b"bytes", object()]
# What only Airflow's own code calls: the test is about just that code.
_defer_task = vars(task_runner)["_defer_task"]
_decode_in_triggerer = getattr(
    importlib.import_module("airflow.serialization.serialized_objects"), "smart_decode_trigger_kwargs", None
) or resolve_name("airflow.serialization.decoders.smart_decode_trigger_kwargs")
_serialized = vars(importlib.import_module("airflow.serialization.serialized_objects"))
_to_dict = (_serialized.get("DagSerialization") or _serialized["SerializedDAG"]).to_dict
_encode_trigger = _serialized.get("_encode_trigger") or resolve_name("airflow.serialization.encoders.encode_trigger")
HIGH_CPU = f"{HighCpuTrigger.__module__}.{HighCpuTrigger.__qualname__}"


def trigger_classes() -> list[type[BaseTrigger]]:
    names = [module.name for module in pkgutil.iter_modules(PACKAGE.__path__, f"{PACKAGE.__name__}.")]
    return [
        value
        for module in map(importlib.import_module, names)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseTrigger) and value.__module__ == module.__name__
    ]


CONCRETE = [kind for kind in trigger_classes() if not inspect.isabstract(kind) and kind is not WatchTrigger]


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


def row_of(classpath: str, kwargs: dict[str, Any]) -> str:
    """Give the text in the database of a trigger that watches an asset."""
    return Trigger(classpath=classpath, kwargs=kwargs).encrypted_kwargs


def in_the_triggerer(classpath: str, row: str) -> BaseTrigger:
    """Make the trigger again as a triggerer does."""
    arguments = Trigger(classpath=classpath, kwargs={})
    arguments.encrypted_kwargs = row
    kind: type[BaseTrigger] = resolve_name(classpath)
    return kind(**{name: _decode_in_triggerer(value) for name, value in arguments.kwargs.items()})


def test_each_trigger_has_a_task_that_makes_it(tmp_path: Path) -> None:
    assert {type(trigger_of(task.writing_to(tmp_path))) for task in WAITING} == {*CONCRETE} - {HighCpuTrigger}


@pytest.mark.parametrize("task", WAITING, ids=name_of)
def test_a_trigger_survives_the_way(task: Task, tmp_path: Path) -> None:
    all_set = {"poke_interval": 0.5, "exponential_backoff": True, "max_wait": 3600, "silent_fail": True}
    for arguments in ({}, all_set) if task in SENSORS else ({},):
        trigger = trigger_of(task.writing_to(tmp_path), **arguments)
        classpath, values = trigger.serialize()
        for row_of in (row_of_a_task, row_of_the_scheduler) if task in SENSORS else (row_of_a_task,):
            again = in_the_triggerer(classpath, row_of(trigger))
            assert json.dumps(again.serialize()) == json.dumps((classpath, values))
        assert list(values) == list(inspect.signature(type(trigger)).parameters)


@pytest.mark.parametrize("task", DEFERRING, ids=name_of)
def test_a_local_destination_is_warned_of_once_when_the_task_defers(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log_lines(monkeypatch, task.kind)
    trigger_of(task.writing_to(tmp_path))
    assert len([line for line in lines if "is on a local disk, and the task defers" in line]) == 1


@pytest.mark.parametrize("kind", CONCRETE)
def test_a_constructor_never_raises(kind: type[BaseTrigger]) -> None:
    """Whatever stands in the row, say of another version: an exception here would stop the whole triggerer."""
    parameters = inspect.signature(kind).parameters
    names = [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
    good: dict[str, Any] = {name: {} for name in names if parameters[name].default is inspect.Parameter.empty}

    def made(**arguments: Any) -> dict[str, Any]:
        trigger = kind(**arguments)
        return {name: getattr(trigger, name) for name in arguments}

    for odd in ODD:
        assert made(**dict.fromkeys(names, odd)) == dict.fromkeys(names, odd)
        for name in names:
            assert made(**{**good, name: odd})[name] is odd


class TestWatcher:
    """A trigger that starts DAGs, on its way from a DAG file into a triggerer."""

    @staticmethod
    def dag(**arguments: Any) -> DAG:
        watcher = AssetWatcher(name="high_cpu", trigger=HighCpuTrigger(**arguments))
        with DAG(dag_id="watching", schedule=[Asset("hot-nodes", watchers=[watcher])]) as dag:
            return dag

    @classmethod
    def row(cls, **arguments: Any) -> dict[str, Any]:
        """Give the trigger as it stands in the serialized DAG."""
        text = json.dumps(_to_dict(cls.dag(**arguments)))
        (found,) = re.findall(r'"trigger": (\{"classpath": .*?\}\})', text)
        row: dict[str, Any] = json.loads(found)
        return row

    def test_watcher_survives_the_way(self) -> None:
        trigger = HighCpuTrigger(threshold=90, nodes=["a", "b"], clear_below=70.5)
        row = self.row(threshold=90, nodes=("a", "b"), clear_below=70.5)
        again = in_the_triggerer(row["classpath"], row_of(**row))
        assert again.serialize() == trigger.serialize()

    def test_watcher_is_the_same_at_each_parsing(self) -> None:
        """Another hash than that of the row in the database would start it anew each time."""
        row = self.row(threshold=90, nodes=("a", "b"))
        stored = Trigger(classpath=row["classpath"], kwargs=row["kwargs"])
        kept = BaseEventTrigger.hash(stored.classpath, stored.kwargs)
        parsed = _encode_trigger(HighCpuTrigger(threshold=90, nodes=["a", "b"]))
        assert BaseEventTrigger.hash(parsed["classpath"], parsed["kwargs"]) == kept

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"threshold": 200}, "threshold is a number, 0 to 100; not 200"),
            ({"clear_below": 90}, r"clear_below is a percentage above 0, up to the threshold \(85\)"),
            ({"nodes": []}, "nodes needs at least one entry, and none of them empty"),
        ],
    )
    def test_watcher_with_an_impossible_argument_is_an_error_of_the_dag_file(
        self, arguments: dict[str, Any], words: str
    ) -> None:
        dag = self.dag(**arguments)
        with pytest.raises(Exception, match=f"Failed to serialize DAG 'watching': {words}"):
            _to_dict(dag)
