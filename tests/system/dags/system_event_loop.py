"""
All of the provider that runs in the triggerer, but for failures.

There is one task for each kind of trigger that works for a task, an asset watcher that finds a spike at once, and both
notifiers, for a deadline that is missed.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from airflow_provider_mediaops.notifications import CaptureHotThreadsNotifier, PostBulletinNotifier
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
from airflow_provider_mediaops.sandbox.books import sample_isbns
from airflow_provider_mediaops.sensors.books import BookSensor
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.sensors.video import SubscriptionSensor
from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger

FOLDER = f"{os.environ['MEDIAOPS_OUTPUT']}/event_loop"
ALWAYS = 1  # every node of the sandbox is that busy
ISBNS = sample_isbns(6_312)[6_300:]
# With silent_fail a sensor leaves the first look to its trigger, too.
SENSOR: dict[str, Any] = {"deferrable": True, "silent_fail": True, "poke_interval": 5, "timeout": 1800}

CALLBACKS = [
    AsyncCallback(PostBulletinNotifier, {"text": "{{ dag_run.dag_id }} is late."}),
    AsyncCallback(CaptureHotThreadsNotifier, {"destination": f"{FOLDER}/late.txt", "interval": "100ms"}),
]
QUEUED, SOON = DeadlineReference.DAGRUN_QUEUED_AT, timedelta(seconds=1)

with DAG(
    dag_id="system_event_loop",
    schedule=None,
    # For mistakes of Airflow (apache/airflow#71580).
    default_args={"retries": 3, "retry_delay": timedelta(seconds=1)},
    deadline=[DeadlineAlert(QUEUED, SOON, callback) for callback in CALLBACKS],
):
    ClusterCpuSensor(task_id="CpuSensorTrigger", threshold=ALWAYS, **SENSOR)
    SubscriptionSensor(task_id="SubscriptionTrigger", mine=True, **SENSOR)
    BookSensor(task_id="BookTrigger", isbn=ISBNS[0], **SENSOR)
    CaptureHotThreadsOperator(
        task_id="CaptureHotThreadsTrigger",
        destination=f"{FOLDER}/hot_threads.txt",
        formats=["txt", "json", "folded", "html"],
        when_cpu_above=ALWAYS,
        sustained_for=0,
        interval="100ms",
        deferrable=True,
    )
    EnrichIsbnsOperator(task_id="EnrichmentTrigger", isbns=ISBNS, destination=f"{FOLDER}/books.jsonl", deferrable=True)
    ExportSubscriptionsOperator(
        task_id="ExportSubscriptionsTrigger", destination=f"{FOLDER}/subs.csv", mine=True, deferrable=True
    )

HIGH_CPU = HighCpuTrigger(cluster_conn_id="cluster_always_hot", threshold=ALWAYS, sustained_for=0)
ALWAYS_HOT = Asset("mediaops-system-always-hot", watchers=[AssetWatcher(name="high_cpu", trigger=HIGH_CPU)])

with DAG(dag_id="system_always_hot", schedule=[ALWAYS_HOT], is_paused_upon_creation=False):
    EmptyOperator(task_id="do_nothing")
