"""
Bulletins whose worker dies or whose reply is lost, that are retried and cleared; each has a platform of its own.

The record of the first of them is in the task state store, that of the others in a journal. One of those is also posted
by a second DAG, which means the same bulletin.
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
from airflow_provider_mediaops.storage import record
from tests.fails_after_posting import FailsAfterPosting

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mediaops.storage.record import FileRecord, Version

OUTPUT = Path(urlsplit(os.environ["MEDIAOPS_OUTPUT"]).path)
JOURNAL = f"{OUTPUT}/journal"
# The end of the names of those whose record is in the journal.
IN_JOURNAL = "_in_journal"
# Far longer than a test needs to find the task and to kill it.
SECONDS_TO_LIVE = 1800
# When the first try of each of these stops and waits for its end: before or after its record is written.
MOMENTS = {
    "killed_before_the_intent": "before intended",
    "killed_before_sending": "after intended",
    "killed_while_sending": "after intended",
    "killed_before_storing": "before posted",
    "killed_after_storing": "after posted",
    "frozen_before_the_intent": "before intended",
    "of_two_dags": "after intended",
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


class DoomedRecord:
    """The record of a journal, which waits for the end of its task at one moment."""

    def __init__(self, record: FileRecord, task_id: str) -> None:
        self._record = record
        self._task_id = task_id
        self.name, self.removal = record.name, record.removal

    def read(self) -> Version:
        return self._record.read()

    def replace(self, value: Any, version: Version) -> Version:
        state = value["state"] if value else "removed"
        reach(self._task_id, f"before {state}")
        new = self._record.replace(value, version)
        reach(self._task_id, f"after {state}")
        return new


def reach(task_id: str, moment: str) -> None:
    """If this is the moment of a task, note which process it is, and wait for what becomes of it."""
    name = task_id.removesuffix(IN_JOURNAL)
    if moment != MOMENTS[name]:
        return
    note = OUTPUT / f"{task_id}.writing"
    note.write_text(str(os.getpid()))
    note.rename(note.with_suffix(".pid"))
    # This one goes on, and is held by its platform.
    if name == "killed_while_sending":
        return
    deadline = time.monotonic() + SECONDS_TO_LIVE
    while not note.with_suffix(".thawed").exists():
        if time.monotonic() > deadline:
            raise TimeoutError("Nobody came.")
        time.sleep(0.1)


class IsKilled(PostBulletinOperator):
    """Its first try comes to a moment at which it is killed, frozen or held up."""

    def execute(self, context: Context) -> dict[str, Any]:
        if context["ti"].try_number == 1:
            if self.journal is None:
                doomed = DoomedStore(context["task_state_store"], self.task_id)
                context = cast("Context", {**context, "task_state_store": doomed})
            else:
                make = record.FileRecord
                # This process is the task's own.
                cast("Any", record).FileRecord = lambda folder: DoomedRecord(make(folder), self.task_id)
        return super().execute(context)


def told(name: str, **given: Any) -> dict[str, Any]:
    """Give what each task says, and to whom; what is given with a journal goes to the end of its name."""
    task_id = f"{name}{IN_JOURNAL if 'journal' in given else ''}"
    return {"task_id": task_id, "text": f"This is {task_id}.", "video_conn_id": f"to_{task_id}", **given}


SHARED = told("of_two_dags", journal=JOURNAL, once_per="the catalogue")

with DAG(
    dag_id="system_bulletins",
    schedule=None,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=1)},
):
    places: list[dict[str, Any]] = [{}, {"journal": JOURNAL}]
    for where in places:
        soon = {**where, "priority_weight": 2}
        PostBulletinOperator(**told("reply_lost", **soon))
        PostBulletinOperator(**told("refused", **soon))
        FailsAfterPosting(**told("retried", **soon))
        PostBulletinOperator(**told("cleared", **soon))
        PostBulletinOperator(**told("cleared_to_post_again", **soon), post_again_on_clear=True)
        for doomed in list(MOMENTS)[:5]:
            is_noticed = where or doomed in SOON_NOTICED
            IsKilled(**told(doomed, **where), priority_weight=2 if is_noticed else 1)
    PostBulletinOperator(**told("reply_lost_twice"), on_uncertain="retry", priority_weight=2)
    IsKilled(**told("frozen_before_the_intent"))
    IsKilled(**SHARED, priority_weight=3)

with DAG(dag_id="system_bulletins_elsewhere", schedule=None):
    PostBulletinOperator(**{**SHARED, "text": "These are other words."}, priority_weight=3)
