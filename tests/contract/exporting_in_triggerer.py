"""An export in the triggerer whose attempts are killed; run as a program."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from tests.airflow_names import TaskDeferred
from tests.contract.exporting import connect
from tests.contract.killing import Work, run_program
from tests.contract.loop_watch import read_connections_from_environment

if TYPE_CHECKING:
    from pathlib import Path


def export(destination: Path, summary: Path) -> None:
    """Do what a task and its trigger do, and leave what the task returns in a file."""
    instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="export", map_index=-1, max_tries=99)
    context: Any = {"ti": instance}
    operator = ExportSubscriptionsOperator(task_id="export", destination=str(destination), mine=True, deferrable=True)
    try:
        returned = operator.execute(context)
    except TaskDeferred as deferred:
        # The next triggerer makes the same trigger again: each attempt of the task has the same arguments.
        classpath, arguments = deferred.trigger.serialize()
        returned = operator.execute_complete(context, asyncio.run(_event(classpath, arguments)))
    summary.write_text(json.dumps(returned))


async def _event(classpath: str, arguments: dict[str, Any]) -> Any:
    module, _, name = classpath.rpartition(".")
    events = getattr(import_module(module), name)(**{**arguments, "settled_after": 0.0}).run()
    payload = (await anext(events)).payload
    await events.aclose()
    return payload


if __name__ == "__main__":
    # Airflow's own thread for this does not survive a fork.
    read_connections_from_environment()
    # The server for practice has few pages.
    run_program(Work(connect, export, part=export))
