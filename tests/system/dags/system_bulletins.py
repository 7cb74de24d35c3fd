"""
Bulletins whose worker dies or whose reply is lost, that are retried and cleared; each has a platform of its own.

Their record is in the task state store, which only a real Airflow has. Deaths with a journal are in `tests/contract`.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.fails_after_posting import FailsAfterPosting

if TYPE_CHECKING:
    from airflow.sdk import Context

OUTPUT = Path(urlsplit(os.environ["MEDIAOPS_OUTPUT"]).path)
# Far longer than a test needs to find the task and to kill it.
SECONDS_TO_LIVE = 1800
# When the first try of each of these stops and waits for its end: before or after its record is written.
MOMENTS = {
    "killed_before_the_intent": "before intended",
    "killed_before_sending": "after intended",
    "killed_while_sending": "after intended",
    "killed_before_storing": "before posted",
    "killed_after_storing": "after posted",
}
# Airflow learns at once that these have ended. The others hold their slots until it misses their workers, so they come
# last.
SOON_NOTICED = {"killed_before_the_intent", "killed_after_storing"}


class DoomedStore:
    """The task's state store, which waits for the end of its task at one moment."""

    def __init__(self, store: Any, task_id: str) -> None:
        self._store = store
        self._task_id = task_id

    def get(self, key: str) -> Any:
        return self._store.get(key)

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        reach(self._task_id, f"before {value['state']}")
        self._store.set(key, value, retention=retention)
        reach(self._task_id, f"after {value['state']}")

    def delete(self, key: str) -> None:
        self._store.delete(key)


def reach(task_id: str, moment: str) -> None:
    """If this is the moment of a task, note which process it is, and wait for its end."""
    if moment != MOMENTS[task_id]:
        return
    note = OUTPUT / f"{task_id}.writing"
    note.write_text(str(os.getpid()))
    note.rename(note.with_suffix(".pid"))
    # This one goes on, and is held by its platform.
    if task_id == "killed_while_sending":
        return
    time.sleep(SECONDS_TO_LIVE)
    raise TimeoutError("Nobody came.")


class IsKilled(PostBulletinOperator):
    """Its first try comes to a moment at which it is killed."""

    def execute(self, context: Context) -> dict[str, Any]:
        if context["ti"].try_number == 1:
            doomed = DoomedStore(context["task_state_store"], self.task_id)
            context = cast("Context", {**context, "task_state_store": doomed})
        return super().execute(context)


def told(task_id: str) -> dict[str, Any]:
    """Give what each task says, and to whom."""
    return {"task_id": task_id, "text": f"This is {task_id}.", "video_conn_id": f"to_{task_id}"}


with DAG(
    dag_id="system_bulletins",
    schedule=None,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=1)},
):
    PostBulletinOperator(**told("reply_lost"), priority_weight=2)
    FailsAfterPosting(**told("retried"), priority_weight=2)
    PostBulletinOperator(**told("posted_then_cleared"), priority_weight=2)
    for doomed in MOMENTS:
        IsKilled(**told(doomed), priority_weight=2 if doomed in SOON_NOTICED else 1)
