"""Runs that are late and fail, whose notifiers are called in a worker, DAG processor, triggerer and executor."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG
from airflow.sdk.definitions.callback import AsyncCallback, SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier, PostBulletinNotifier

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]
OF_THE_RUN = "{{ dag_run.dag_id }} in {{ run_id }} of {{ dag_run.run_after | ds }}"
OF_THE_TASK = f"{OF_THE_RUN}: {{{{ ti.task_id }}}} failed: {{{{ exception or 'no error is known' }}}}"


def fail() -> None:
    """End with an error."""
    raise ValueError("no such file")


def lose_the_worker() -> None:
    """End the worker and this task's process, as a machine that is switched off does."""
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def alerts() -> Iterator[DeadlineAlert]:
    """Give alerts that come at once, in each form."""
    for form, where in ((AsyncCallback, "triggerer"), (SyncCallback, "executor")):
        capture = {"destination": f"{OUTPUT}/late/{{{{ run_id }}}}/{where}.txt", "formats": ["txt"]}
        calls: list[tuple[Any, dict[str, Any]]] = [
            (PostBulletinNotifier, {"text": f"{OF_THE_RUN}: late, says the {where}."}),
            (CaptureHotThreadsNotifier, capture),
        ]
        for notifier, arguments in calls:
            yield DeadlineAlert(
                reference=DeadlineReference.DAGRUN_QUEUED_AT,
                interval=timedelta(seconds=1),
                callback=form(notifier, arguments),
            )


with DAG(
    dag_id="system_callbacks",
    schedule=None,
    deadline=list(alerts()),
    on_failure_callback=PostBulletinNotifier(text=f"{OF_THE_RUN}: the run failed."),
    default_args={
        "on_failure_callback": [
            PostBulletinNotifier(text=OF_THE_TASK, video_conn_id="video_read_only"),
            PostBulletinNotifier(text=OF_THE_TASK),
        ]
    },
):
    PythonOperator(task_id="fails", python_callable=fail)
    PythonOperator(task_id="loses_its_worker", python_callable=lose_the_worker)

with DAG(
    dag_id="system_callbacks_without_tasks",
    schedule=None,
    on_success_callback=PostBulletinNotifier(text="{{ dag.dag_id }} in {{ run_id }}: the run succeeded."),
):
    pass
