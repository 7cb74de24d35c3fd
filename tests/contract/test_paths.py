"""Path objects as arguments: rendered, mapped, deferred and serialized as texts are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, ObjectStoragePath

from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from tests.contract.serialized import written

if TYPE_CHECKING:
    from collections.abc import Callable

PATHS: list[Callable[[str], Any]] = [str, Path, ObjectStoragePath]
KINDS: list[tuple[Any, str, dict[str, Any]]] = [
    (ExportSubscriptionsOperator, "destination", {"task_id": "t", "mine": True}),
    (CaptureHotThreadsOperator, "destination", {"task_id": "t"}),
    (EnrichIsbnsOperator, "destination", {"task_id": "t", "isbns": "9780140449136"}),
    (EnrichIsbnsOperator, "source", {"task_id": "t", "destination": "/out/books.jsonl"}),
    (CaptureHotThreadsNotifier, "destination", {}),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("kind", "argument", "others"), KINDS)
def test_a_path_object_is_checked_rendered_and_stored(
    kind: Any, argument: str, others: dict[str, Any], path: Callable[[str], Any]
) -> None:
    # The wrong world: a path object has a method resolve(), as the result of another task has, and was not checked.
    with pytest.raises(ValueError, match="NUL"):
        kind(**{argument: path("/data/\0.csv"), **others})
    with DAG("contract", schedule=None) as dag:
        made = kind(**{argument: path("/data/{{ run_id }}/x.csv"), **others})
    if others:
        # A notifier is no task.
        assert "'/data/{{ run_id }}/x.csv'" in str(written(dag))
    made.render_template_fields({"run_id": "r1", "params": {}})
    assert str(getattr(made, argument)) == "/data/r1/x.csv"
