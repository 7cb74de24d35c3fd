"""Tasks whose work a triggerer does: its loop opens the store, and a thread has to do it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk._shared.module_loading import import_string
from airflow.sdk.io.store import _STORE_CACHE

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from tests.airflow_names import TaskDeferred
from tests.stores.one_task import context_of
from tests.stores.test_jobs import TASK_SECONDS

if TYPE_CHECKING:
    from tests.stores.conftest import Place


async def event_of(classpath: str, arguments: dict[str, Any]) -> Any:
    """Return the event of the trigger that a triggerer makes of what is stored."""
    events = import_string(classpath)(**arguments).run()
    try:
        return (await asyncio.wait_for(anext(events), TASK_SECONDS)).payload
    finally:
        await events.aclose()


def deferred(task: Any) -> dict[str, Any]:
    """Do what a task, its trigger and the task again do."""
    context = context_of(1)
    with pytest.raises(TaskDeferred) as raised:
        task.execute(context)
    # The triggerer is another process, so it opens the store itself.
    _STORE_CACHE.clear()
    payload = asyncio.run(event_of(*raised.value.trigger.serialize()))
    summary: dict[str, Any] = getattr(task, raised.value.method_name)(
        context, event=payload, **(raised.value.kwargs or {})
    )
    return summary


@pytest.mark.parametrize(("operator", "rows"), [(ExportSubscriptionsOperator, 120), (EnrichIsbnsOperator, 9)])
def test_deferred_task_writes_every_row(place: Place, operator: Any, rows: int) -> None:
    place.write("list.txt", "\n".join(sample_isbns(9)).encode())
    what = {"mine": True} if operator is ExportSubscriptionsOperator else {"source": f"{place.folder}/list.txt"}
    task = operator(task_id="task", destination=f"{place.folder}/d.jsonl", deferrable=True, **what)

    assert deferred(task)["rows"] == rows
    assert len(set(place.read("d.jsonl").splitlines())) == rows
