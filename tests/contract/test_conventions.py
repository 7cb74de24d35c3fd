"""The habits of the official providers, which users expect of any other: compared with classes of theirs."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from airflow.providers.http.sensors.http import HttpSensor
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.standard.sensors.filesystem import FileSensor
from airflow.sdk import DAG

from airflow_provider_mediaops.version_compat import AirflowSkipException, TaskDeferralTimeout
from tests.contract import fresh_python
from tests.contract.tasks import TASKS, Task

OURS: list[Any] = [task.kind for task in TASKS]
OFFICIAL: list[Any] = [HttpSensor, TriggerDagRunOperator, FileSensor]


def parameters_of(kind: type) -> dict[str, inspect.Parameter]:
    """Give the arguments of a constructor, with those that it passes on to the base classes."""
    found: dict[str, inspect.Parameter] = {}
    for base in kind.__mro__:
        if "__init__" in vars(base):
            found = {**inspect.signature(base).parameters, **found}
    return found


def name_of(kind: type) -> str:
    return kind.__name__


@pytest.mark.parametrize("task", [task for task in TASKS if task.mapped], ids=lambda task: task.kind.__name__)
def test_mapped_operator_has_airflows_own_defaults(task: Task) -> None:
    fixed = {name: value for name, value in task.arguments.items() if name not in task.mapped}
    with DAG("contract", schedule=None):
        ours: Any = task.kind.partial(task_id="ours", **fixed).expand(**task.mapped)
        theirs: Any = EmptyOperator.partial(task_id="theirs").expand(doc=["one", "two"])
    for name in ("inlets", "outlets", "executor_config", "retry_policy", "trigger_rule", "queue", "weight_rule"):
        assert ours.partial_kwargs.get(name) == theirs.partial_kwargs.get(name)


DEFERRABLE = [kind for kind in OURS + OFFICIAL if "deferrable" in parameters_of(kind)]


@pytest.mark.parametrize("kind", DEFERRABLE, ids=name_of)
def test_deferrable_is_a_boolean_whose_default_the_signature_shows(kind: type) -> None:
    deferrable = parameters_of(kind)["deferrable"]
    assert (deferrable.annotation, deferrable.default) == ("bool", False)


@pytest.mark.long
def test_airflows_setting_makes_all_that_can_defer_do_so() -> None:
    places = {kind.__name__: kind.__module__ for kind in DEFERRABLE}
    assert len(places) == len(DEFERRABLE) >= 6
    deferred = fresh_python.result_of(
        "import importlib, inspect\n"
        "result = {}\n"
        f"for name, module in {places}.items():\n"
        "    kinds = getattr(importlib.import_module(module), name).__mro__\n"
        "    found = [inspect.signature(kind).parameters.get('deferrable') for kind in kinds]\n"
        "    result[name] = next(one for one in found if one).default\n",
        env={"AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE": "True"},
    )
    assert deferred == dict.fromkeys(places, True)


class TestTheFaultsOfAirflowThatAnOverrideIsFor:
    """Each of these fails once Airflow has mended it: then the override of ``resume_execution`` may go."""

    @pytest.mark.airflow(">=3.2")
    def test_soft_fail_hides_a_broken_trigger(self) -> None:
        """apache/airflow#71255, for ``sensors/base.py``."""
        sensor: Any = FileSensor(task_id="theirs", filepath="/none", soft_fail=True)
        with pytest.raises(AirflowSkipException):
            sensor.resume_execution("__fail__", {"error": "Trigger failure"}, {})

    def test_execution_timeout_of_a_deferred_task_is_no_task_timeout(self) -> None:
        """For ``operators/base.py``: a worker raises AirflowTaskTimeout."""
        operator: Any = TriggerDagRunOperator(task_id="theirs", trigger_dag_id="none")
        with pytest.raises(TaskDeferralTimeout):
            operator.resume_execution("__fail__", {"error": "Trigger timeout"}, {})
