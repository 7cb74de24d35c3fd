"""Every operator, sensor and notifier, in workers and in the triggerer; each run writes to the same places."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG

from airflow_provider_mediaops.notifications.cluster import CaptureHotThreadsNotifier
from airflow_provider_mediaops.notifications.video import PostBulletinNotifier
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sandbox.books import sample_isbns
from airflow_provider_mediaops.sensors.books import BookSensor
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.sensors.video import SubscriptionSensor

OUTPUT = os.environ["MEDIAOPS_OUTPUT"]
ISBNS = sample_isbns(12)
CAPTURE: dict[str, Any] = {"interval": "50ms", "snapshots": 2, "nodes": "sandbox-1"}
# A task that is to go on within two seconds or so after it was rescheduled may be failed by Airflow 3.3.
SENSORS: dict[str, dict[str, Any]] = {
    "poked": {"mode": "poke", "deferrable": False, "poke_interval": 1},
    "rescheduled": {"mode": "reschedule", "deferrable": False, "poke_interval": 5},
    "deferred": {"deferrable": True, "poke_interval": 1},
}
FORMS = {"in_worker": False, "in_triggerer": True}
RETRIES = {"retries": 5, "retry_delay": timedelta(seconds=1)}

with DAG(dag_id="soak_video", schedule=None, default_args=RETRIES):
    PostBulletinOperator(
        task_id="post",
        text="Posted in {{ run_id }}",
        on_success_callback=PostBulletinNotifier(text="Told of {{ run_id }}"),
    )
    PostBulletinOperator(
        task_id="post_with_journal",
        text="Written down in {{ run_id }}",
        # It keeps a record of each bulletin, beside what is to stay as large as it is.
        journal=f"{OUTPUT}_journal",
        once_per="{{ run_id }}",
    )
    for form, deferrable in FORMS.items():
        ExportSubscriptionsOperator(
            task_id=f"export_{form}",
            destination=f"{OUTPUT}/subscriptions_{form}.jsonl",
            mine=True,
            changes=f"{OUTPUT}/changes_{form}.jsonl",
            deferrable=deferrable,
        )
    for name, how in SENSORS.items():
        SubscriptionSensor(task_id=f"subscription_{name}", channel_id="UCsandbox-few", timeout=300, **how)

with DAG(dag_id="soak_cluster", schedule=None, default_args=RETRIES):
    taken = CaptureHotThreadsOperator(
        task_id="capture",
        destination=f"{OUTPUT}/captures/hot_threads_{{{{ dag_run.conf['place'] }}}}.txt",
        running_tasks=True,
        on_success_callback=CaptureHotThreadsNotifier(destination=f"{OUTPUT}/notified/hot_threads.txt", **CAPTURE),
        **CAPTURE,
    )
    for form, deferrable in FORMS.items():
        CaptureHotThreadsOperator(
            task_id=f"capture_when_hot_{form}",
            destination=f"{OUTPUT}/when_hot_{form}/hot_threads.txt",
            when_cpu_above=1,
            captures=2,
            every=1,
            poll_interval=1,
            deferrable=deferrable,
            **CAPTURE,
        )
    for name, how in SENSORS.items():
        ClusterCpuSensor(task_id=f"cpu_{name}", threshold=1, nodes=["sandbox-1"], timeout=300, **how)
    taken >> HotThreadsDigestOperator(
        task_id="digest",
        source=f"{OUTPUT}/captures/",
        since="{{ dag_run.run_after - macros.timedelta(days=1) }}",
        until="{{ dag_run.run_after + macros.timedelta(days=1) }}",
        destination=f"{OUTPUT}/digest.html",
    )

with DAG(dag_id="soak_held", default_args=RETRIES, schedule=None):
    # The node has little to do until the test pins its CPU.
    CaptureHotThreadsOperator(
        task_id="capture_when_hot",
        destination=f"{OUTPUT}/held/hot_threads.txt",
        when_cpu_above=50,
        poll_interval=1,
        deferrable=True,
        **{**CAPTURE, "nodes": "sandbox-3"},
    )

with DAG(dag_id="soak_books", schedule=None, default_args=RETRIES):
    for form, deferrable in FORMS.items():
        EnrichIsbnsOperator(
            task_id=f"enrich_{form}",
            isbns=ISBNS,
            destination=f"{OUTPUT}/books_{form}.csv",
            deferrable=deferrable,
        )
    for name, how in SENSORS.items():
        BookSensor(task_id=f"book_{name}", isbn=ISBNS[0], timeout=300, **how)
