"""Templates: each field that says it may be templated is rendered by Airflow, also where it is mapped."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from airflow.sdk import DAG

from tests.contract.tasks import TASKS, Task, name_of

CASES = [(task, field) for task in TASKS for field in task.kind.template_fields]


def rendered(task: Any) -> Any:
    context = {"wanted": "rendered", "run_id": "manual", "params": {}}
    task.render_template_fields(context)
    return task


def with_template(task: Task, field: str, template: str) -> Any:
    """Make the task with a template in the argument that becomes this field."""
    argument = task.connection if field == "conn_id" else field
    arguments = {**task.arguments, argument: template}
    if task.instead and task.instead[0] == field:
        del arguments[task.instead[1]]
    return task.kind(task_id="task", **arguments)


@pytest.mark.parametrize("task", TASKS, ids=name_of)
def test_template_fields_are_arguments_kept_under_their_names(task: Task) -> None:
    arguments = {name for kind in task.kind.__mro__[:2] for name in inspect.signature(kind).parameters}
    assert set(task.kind.template_fields) <= arguments
    assert task.connection in arguments
    made = task.make()
    for name in set(task.kind.template_fields) & set(task.arguments):
        assert getattr(made, name) == task.arguments[name]


@pytest.mark.parametrize(
    ("task", "field"), CASES, ids=lambda value: value if isinstance(value, str) else name_of(value)
)
def test_a_templated_field_is_rendered(task: Task, field: str) -> None:
    # The suffix of a destination names the format, which is checked before the rest is known.
    with DAG("contract", schedule=None):
        made = with_template(task, field, "{{ wanted }}/x.jsonl")
    assert getattr(rendered(made), field) == "rendered/x.jsonl"


@pytest.mark.parametrize("task", TASKS, ids=name_of)
def test_the_connection_may_be_templated(task: Task) -> None:
    with DAG("contract", schedule=None):
        made = rendered(task.make(**{task.connection: "{{ wanted }}_conn"}))
    named = made.conn_id if hasattr(made, "conn_id") else getattr(made, task.connection)
    assert named == "rendered_conn"


@pytest.mark.parametrize("task", TASKS, ids=name_of)
def test_defaults_work_without_a_logical_date(task: Task) -> None:
    """A run that was triggered has no `ds`: no default may ask for one."""
    with DAG("contract", schedule=None):
        made = rendered(task.make())
    for name, value in task.arguments.items():
        assert getattr(made, name) == value
