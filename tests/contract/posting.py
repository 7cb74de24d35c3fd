"""
Tasks that post bulletins with a journal, killed at each step; run as a program.

Its arguments are the folder of the journal and the folder of its own files. The platform is that of the connection in
the environment. The text of a bulletin is its key.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.contract.killing import Steps, is_killed


def post(key: str, number: int, result: Path | None = None) -> None:
    """Do what a try of a task does, and leave in a file what came of it."""
    instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="post", map_index=-1, try_number=number, max_tries=9)
    context: Any = {"ti": instance}
    try:
        operator = PostBulletinOperator(task_id="post", text=key, journal=JOURNAL, once_per=key)
        outcome = operator.execute(context)["id"]
    except Exception as error:  # noqa: BLE001 the test looks at it
        # Below Airflow 3.3, Airflow's own exception ends the task.
        outcome = type(error.__cause__ or error).__name__
    if result:
        result.write_text(outcome)


def die_at_each_step(folder: Path) -> list[dict[str, Any]]:
    """Let a try die at its first step, and the next one finish; the same with the second step, and so on."""
    deaths: list[dict[str, Any]] = []
    killed = True
    while killed:
        key, result = f"death-{len(deaths)}", folder / "result"

        def attempt(number: int, key: str = key, result: Path = result) -> None:
            post(key, number, result)

        result.unlink(missing_ok=True)
        killed = is_killed(partial(attempt, 1), Steps(len(deaths) + 1))
        # A process that is killed after its last step leaves its outcome.
        first = result.read_text() if result.exists() else ""
        assert not is_killed(partial(attempt, 2), Steps(None))
        deaths.append({"key": key, "killed": killed, "first": first, "second": result.read_text()})
    return deaths


if __name__ == "__main__":
    JOURNAL = sys.argv[1]
    # Airflow prints its log.
    output, sys.stdout = sys.stdout, sys.stderr
    # In this process, so that no fork has to import anything.
    post("warm", 1)
    print(json.dumps(die_at_each_step(Path(sys.argv[2]))), file=output, flush=True)
