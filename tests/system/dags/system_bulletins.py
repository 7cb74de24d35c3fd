"""Bulletins whose worker dies or whose reply is lost, that are retried and cleared; each has a platform of its own."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import PostBulletinOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

OUTPUT = Path(urlsplit(os.environ["MEDIAOPS_OUTPUT"]).path)
# Far longer than a test needs to find the task and to kill it.
SECONDS_TO_LIVE = 600
# When the first try of each of these stops and waits for its end: before or after its record is written.
MOMENTS = {
    "killed_before_the_intent": "before intended",
    "killed_before_sending": "after intended",
    "killed_while_sending": "after intended",
    "killed_before_storing": "before posted",
    "killed_after_storing": "after posted",
    "frozen_before_the_intent": "before intended",
}
# Airflow learns at once that these have ended. The others hold their slots until it misses their workers, so they come
# last.
SOON_NOTICED = {"killed_before_the_intent", "killed_after_storing"}


class Doomed:
    """The task's state store; at one moment it writes down which process that is, and waits for what becomes of it."""

    def __init__(self, store: Any, task_id: str) -> None:
        self._store = store
        self._task_id = task_id

    def get(self, key: str) -> Any:
        return self._store.get(key)

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        self._reach(f"before {value['state']}")
        self._store.set(key, value, retention=retention)
        self._reach(f"after {value['state']}")

    def delete(self, key: str) -> None:
        self._store.delete(key)

    def _reach(self, moment: str) -> None:
        if moment != MOMENTS[self._task_id]:
            return
        note = OUTPUT / f"{self._task_id}.writing"
        note.write_text(str(os.getpid()))
        note.rename(note.with_suffix(".pid"))
        # This one goes on, and is held by its platform.
        if self._task_id == "killed_while_sending":
            return
        deadline = time.monotonic() + SECONDS_TO_LIVE
        while not note.with_suffix(".thawed").exists():
            if time.monotonic() > deadline:
                raise TimeoutError("Nobody came.")
            time.sleep(0.1)


class IsKilled(PostBulletinOperator):
    """Its first try comes to a moment at which it is killed or frozen."""

    def execute(self, context: Context) -> dict[str, Any]:
        if context["ti"].try_number == 1:
            doomed = Doomed(context["task_state_store"], self.task_id)
            context = cast("Context", {**context, "task_state_store": doomed})
        return super().execute(context)


class FailsAfterPosting(PostBulletinOperator):
    """Its first try fails when all is done, as one does whose return value cannot be stored."""

    def execute(self, context: Context) -> dict[str, Any]:
        activity = super().execute(context)
        if context["ti"].try_number == 1:
            raise OSError("The worker's disk is full.")
        return activity


def told(task_id: str) -> dict[str, Any]:
    """Give what each task says, and to whom."""
    return {"task_id": task_id, "text": f"This is {task_id}.", "video_conn_id": f"to_{task_id}"}


with DAG(
    dag_id="system_bulletins",
    schedule=None,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=1)},
):
    PostBulletinOperator(**told("reply_lost"), priority_weight=2)
    PostBulletinOperator(**told("reply_lost_twice"), on_uncertain="retry", priority_weight=2)
    PostBulletinOperator(**told("refused"), priority_weight=2)
    FailsAfterPosting(**told("retried"), priority_weight=2)
    PostBulletinOperator(**told("cleared"), priority_weight=2)
    PostBulletinOperator(**told("cleared_to_post_again"), post_again_on_clear=True, priority_weight=2)
    for doomed in MOMENTS:
        IsKilled(**told(doomed), priority_weight=2 if doomed in SOON_NOTICED else 1)
