"""What follows from an event: notifiers, a missed deadline, and a run started by an asset."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, Asset, task
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier, PostBulletinNotifier
from airflow_provider_mediaops.sensors.books import BookSensor

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]
CATALOGUE = Asset("mediaops-system-catalogue")

with DAG(
    dag_id="system_events",
    schedule=None,
    on_success_callback=PostBulletinNotifier(text="{{ dag.dag_id }} has succeeded."),
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=1),
        callback=AsyncCallback(PostBulletinNotifier, {"text": "{{ dag_run.dag_id }} is late."}),
    ),
):

    @task(
        outlets=[CATALOGUE],
        on_success_callback=[
            PostBulletinNotifier(text="{{ ti.task_id }} has succeeded.", video_conn_id="video_read_only"),
            PostBulletinNotifier(text="{{ ti.task_id }} has succeeded."),
            CaptureHotThreadsNotifier(destination=f"{OUTPUT}/{{{{ ti.task_id }}}}.txt", interval="100ms"),
        ],
    )
    def refresh_catalogue() -> None:
        """Do nothing, successfully."""

    refresh_catalogue()

with DAG(dag_id="system_started_by_asset", schedule=[CATALOGUE], is_paused_upon_creation=False):
    BookSensor(task_id="wait_for_book", isbn="9780141439518", poke_interval=5, timeout=1800, deferrable=True)
