"""Templates: each field that may be templated is rendered by Airflow, text or path; no path is a template file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, ObjectStoragePath

from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.contract.serialized import written
from tests.contract.tasks import TASKS, Task, name_of

# The endings of what tasks read and write, and those that operators of other providers take for templates.
FILES = [f"list{end}" for end in (".txt", ".csv", ".jsonl", ".json", ".csv.gz", ".parquet", ".html", ".folded", ".sql")]
TEMPLATES = [f"weekly{end}" for end in (".txt.j2", ".jinja", ".jinja2")]
CASES = [(task, field) for task in TASKS for field in task.kind.template_fields]


def rendered(task: Any) -> Any:
    context = {"wanted": "rendered", "run_id": "manual", "params": {}}
    task.render_template_fields(context)
    return task


@pytest.fixture
def dag(tmp_path: Path) -> DAG:
    """Have a DAG whose templates are searched for in a folder with a file of each ending."""
    for name in FILES + TEMPLATES:
        (tmp_path / name).write_text("Content of {{ wanted }}.\n")
    return DAG("contract", schedule=None, template_searchpath=str(tmp_path))


@pytest.mark.parametrize("task", TASKS, ids=name_of)
def test_defaults_work_without_a_logical_date(task: Task) -> None:
    """A run that was triggered has no `ds`: no default may ask for one."""
    with DAG("contract", schedule=None):
        made = rendered(task.make())
    for name, value in task.arguments.items():
        assert getattr(made, name) == value


@pytest.mark.parametrize(
    ("task", "field"), CASES, ids=lambda value: value if isinstance(value, str) else name_of(value)
)
def test_a_path_is_never_taken_for_a_template_file(task: Task, field: str, dag: DAG) -> None:
    names = FILES if task.kind is PostBulletinOperator else FILES + TEMPLATES
    for value in (*names, names):
        with dag:
            made = task.make(task_id=f"task_{len(dag.tasks)}")
        # Whether the argument takes such a value is another question.
        setattr(made, field, value)
        made.resolve_template_files()
        assert getattr(rendered(made), field) == value


@pytest.mark.parametrize("path", [Path, ObjectStoragePath])
@pytest.mark.parametrize(
    ("task", "field"),
    [(task, field) for task, field in CASES if field in {"destination", "source"}],
    ids=lambda value: value if isinstance(value, str) else name_of(value),
)
def test_a_path_object_is_checked_rendered_and_stored(task: Task, field: str, path: Callable[[str], Any]) -> None:
    """It has a method resolve(), as the result of another task has, which is not checked."""
    instead, argument = task.instead or ("", "")
    others = {argument: None} if field == instead else {}
    with pytest.raises(ValueError, match="is the path of a file; not"):
        task.make(**{field: path("/data/\0.csv"), **others})
    with DAG("contract", schedule=None) as dag:
        made = task.make(**{field: path("/data/{{ run_id }}/x.csv"), **others})
    assert "'/data/{{ run_id }}/x.csv'" in str(written(dag))
    assert str(getattr(rendered(made), field)) == "/data/manual/x.csv"


@pytest.mark.parametrize("name", TEMPLATES)
class TestABulletin:
    def test_may_be_in_a_template_file_beside_the_dag(self, dag: DAG, name: str) -> None:
        with dag:
            made = PostBulletinOperator(task_id="task", text=name)
        # As Airflow does when it has read the DAG file; where a task runs, it does not.
        for resolve in (True, False):
            if resolve:
                made.resolve_template_files()
            assert rendered(made).text == "Content of rendered."
            made.text = name

    def test_name_of_a_file_that_a_template_renders_is_a_text(self, dag: DAG, name: str) -> None:
        """Else whoever starts a run could post what is in the folder."""
        with dag:
            made = PostBulletinOperator(task_id="task", text="{{ params.text }}")
        made.resolve_template_files()
        made.render_template_fields({"params": {"text": name}})
        assert made.text == name


@pytest.mark.parametrize("task", TASKS, ids=name_of)
def test_airflow_is_told_which_fields_are_lists(task: Task) -> None:
    lists = {"ids", "part", "for_channel_ids", "nodes", "formats", "isbns", "keep_columns", "reuse", "isbn_column"}
    if "isbn_column" in task.kind.template_fields:
        # The folder of captures of a digest is one path.
        lists.add("source")
    told = task.kind.template_fields_renderers
    assert told == dict.fromkeys(lists & set(task.kind.template_fields), "json")
