"""Run one task as a process of its own: its arguments are the operator, its parameters as JSON and the try's number."""

from __future__ import annotations

import json
import logging
import sys
from types import SimpleNamespace
from typing import Any


def context_of(number: int, run: str = "run", task: str = "task") -> Any:
    """Return as much of Airflow's context as names the task instance."""
    return {
        "ti": SimpleNamespace(
            dag_id="dag", run_id=run, task_id=task, map_index=-1, try_number=number, max_tries=9, hostname="worker"
        )
    }


def main() -> None:
    from airflow.sdk._shared.module_loading import import_string

    operator, arguments, number, run = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    task = import_string(operator)(task_id="task", **json.loads(arguments))
    print(json.dumps(task.execute(context_of(int(number), run)), default=str))  # noqa: T201 the test reads it


if __name__ == "__main__":
    main()
