from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_provider_mediaops.operators.dataset_owner import owner_of

START = datetime(2026, 3, 14, 20, 0, tzinfo=timezone.utc)


def context(**changes: Any) -> Any:
    fields = {"dag_id": "dag", "run_id": "run", "task_id": "task", "map_index": 3, "max_tries": 2, **changes}
    start = fields.pop("start", START)
    return {"ti": SimpleNamespace(**fields), "dag_run": SimpleNamespace(start_date=start)}


def test_owner_of_a_context_is_the_task_instance_with_its_parameters() -> None:
    owner = owner_of(context(), {"a": 1, "b": ["x"]})

    assert (owner.task, owner.clears, owner.run_start) == ("dag/run/task/3", 2, START.isoformat())
    assert owner == owner_of(context(try_number=4), {"b": ["x"], "a": 1})


@pytest.mark.parametrize("change", ["dag_id", "run_id", "task_id", "map_index"])
def test_another_task_instance_is_another_owner(change: str) -> None:
    assert owner_of(context(**{change: 7}), {}).folder != owner_of(context(), {}).folder


def test_other_parameters_make_another_owner() -> None:
    assert owner_of(context(), {"a": 1}).folder != owner_of(context(), {"a": 2}).folder


@pytest.mark.parametrize("change", [{"max_tries": 5}, {"start": datetime(2026, 3, 15, tzinfo=timezone.utc)}])
def test_cleared_task_and_a_run_made_anew_resume_but_have_published_nothing(change: dict[str, Any]) -> None:
    later, first = owner_of(context(**change), {}), owner_of(context(), {})

    assert later.folder == first.folder
    assert later.turn != first.turn


@pytest.mark.parametrize("given", [{}, {"ti": None}])
def test_without_a_task_instance_each_call_is_its_own(given: dict[str, Any]) -> None:
    first, second = (owner_of(cast("Any", given), {}) for _ in range(2))

    assert second.folder != first.folder


def test_owner_of_a_task_that_is_not_mapped_in_a_run_that_has_not_begun_has_neither() -> None:
    owner = owner_of(context(map_index=None, start=None), {})

    assert (owner.task, owner.run_start) == ("dag/run/task/-1", "")
