"""Run one export as a process of its own: its arguments are its parameters as JSON and the number of the try."""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace
from typing import Any


def context_of(number: int, run: str = "run", task: str = "task") -> Any:
    """Return as much of Airflow's context as names the task instance."""
    names = {"dag_id": "dag", "run_id": run, "task_id": task, "map_index": -1, "hostname": "worker"}
    return {"ti": SimpleNamespace(**names, try_number=number, max_tries=9)}


def main() -> None:
    from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

    arguments, number = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    task = ExportSubscriptionsOperator(task_id="task", **json.loads(arguments))
    print(json.dumps(task.execute(context_of(int(number))), default=str))  # noqa: T201 the test reads it


if __name__ == "__main__":
    main()
