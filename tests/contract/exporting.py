"""An export whose attempts are killed; run as a program."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from tests.contract.killing import run_program

PAGES = 60


def connect(base: str) -> None:
    """Say where the platform is, for each of the forks."""
    connection = {"conn_type": "mediaops_video", "host": base, "password": "token", "extra": {"max_attempts": 1}}
    os.environ["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"] = json.dumps(connection)


def export(destination: Path, summary: Path) -> None:
    """Do what a task does, and leave what it returns in a file."""
    instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="export", map_index=-1, max_tries=99)
    operator = ExportSubscriptionsOperator(task_id="export", destination=str(destination), mine=True)
    summary.write_text(json.dumps(operator.execute({"ti": instance})))  # type: ignore[typeddict-item]


if __name__ == "__main__":
    run_program(connect, export)
