"""Folders by run and by day: templates that work in every kind of run, and the examples use no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import pytest
from airflow.sdk import DAG, BaseOperator

from tests.contract import dag_runs
from tests.contract.run_contexts import KINDS, context_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# What Airflow's own decorators import.
pytestmark = pytest.mark.filterwarnings("ignore:The `airflow.utils.operator_helpers")

ROOT = Path(__file__).parents[2]
DAG_FILES = [
    *sorted((ROOT / "example_dags").glob("*.py")),
    *sorted((ROOT / "docs" / "recipes").glob("*.py")),
    *(file for file in sorted((ROOT / "docs" / "snippets").glob("*.py")) if "DAG(" in file.read_text()),
]
RECIPES = {
    "{{ run_id }}": r"(manual|scheduled|asset_triggered)__2026-11-22T09:30:00\+00:00",
    "{{ dag_run.run_after | ds }}": "2026-11-22",
    "{{ dag_run.run_after | ts_nodash }}": "20261122T093000",
}


class Templated(BaseOperator):
    """A task with one template."""

    template_fields = ("destination",)

    def __init__(self, *, destination: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.destination = destination


def rendered(template: str, kind: str) -> str:
    with DAG("runs", schedule=None):
        task = Templated(task_id="task", destination=template)
    task.render_template_fields(context_of(task, kind))
    return task.destination


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_of_the_docs_works_in_every_run(recipe: str, kind: str) -> None:
    assert re.fullmatch(RECIPES[recipe], rendered(recipe, kind))
    assert recipe in (ROOT / "docs" / "guides" / "arguments.md").read_text()


def test_ds_exists_in_scheduled_runs_only() -> None:
    assert rendered("{{ ds }}", "scheduled") == "2026-11-22"
    for kind in ("manual", "asset_triggered"):
        with pytest.raises(jinja2.UndefinedError, match="'ds' is undefined"):
            rendered("{{ ds }}", kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", DAG_FILES, ids=lambda file: file.stem)
def test_the_destinations_of_an_example_work_in_every_run(file: Path, kind: str) -> None:
    for task, destination in destinations(file):
        with DAG(task.dag_id, schedule=None, params=task.dag.params):
            stand_in = Templated(task_id=task.task_id, destination=destination)
        # What a mapped task is mapped over.
        stand_in.channel_id, stand_in.nodes, stand_in.source = "UC", "node-1", "list.csv"
        stand_in.render_template_fields(context_of(stand_in, kind))
        assert "{" not in stand_in.destination


def destinations(file: Path) -> Iterator[tuple[Any, str]]:
    """Yield the tasks of a file that write to a path, mapped ones included, with that path."""
    for dag in dag_runs.dags_of(file).values():
        for task in dag.tasks:
            arguments = getattr(task, "partial_kwargs", None) or vars(task)
            if destination := arguments.get("destination"):
                yield task, destination


def test_the_examples_that_write_files_are_looked_at() -> None:
    found = {file.stem for file in DAG_FILES if list(destinations(file))}
    assert len(found) >= 8
