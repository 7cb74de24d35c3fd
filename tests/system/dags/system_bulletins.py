"""
Bulletins whose worker dies or whose reply is lost, that are retried and cleared; each has a platform of its own.

Their record is in the task state store, which only a real Airflow has.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.fails_after_posting import FailsAfterPosting

if TYPE_CHECKING:
    from airflow.sdk import Context

OUTPUT = Path(urlsplit(os.environ["MEDIAOPS_OUTPUT"]).path)


class IsKilled(PostBulletinOperator):
    """Its first try notes which process it is, and is killed while its platform holds it."""

    def execute(self, context: Context) -> dict[str, Any]:
        if context["ti"].try_number == 1:
            note = OUTPUT / f"{self.task_id}.writing"
            note.write_text(str(os.getpid()))
            note.rename(note.with_suffix(".pid"))
        return super().execute(context)


with DAG(
    dag_id="system_bulletins",
    schedule=None,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=1)},
):
    for name, kind in (
        ("reply_lost", PostBulletinOperator),
        ("retried", FailsAfterPosting),
        ("posted_then_cleared", PostBulletinOperator),
        # It holds its slot until Airflow misses its worker.
        ("killed", IsKilled),
    ):
        kind(task_id=name, text=f"This is {name}.", video_conn_id=f"to_{name}")
