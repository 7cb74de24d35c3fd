"""A DAG of each operator; as a program, it runs one after the other and writes down how each has ended."""

from __future__ import annotations

import json
import os
from pathlib import Path

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator

FOLDER = Path(os.environ["RESULTS_FOLDER"])

with DAG("bulletin", schedule=None) as bulletin:
    PostBulletinOperator(task_id="post", text="Installed.")

with DAG("export", schedule=None) as export:
    ExportSubscriptionsOperator(task_id="export", destination=str(FOLDER / "subscriptions.parquet"), mine=True)

with DAG("capture", schedule=None) as capture:
    CaptureHotThreadsOperator(task_id="capture", destination=str(FOLDER / "captures" / "hot.txt"), running_tasks=True)

with DAG("digest", schedule=None) as digest:
    HotThreadsDigestOperator(task_id="digest", source=str(FOLDER / "captures"), destination=str(FOLDER / "digest"))

with DAG("enrichment", schedule=None) as enrichment:
    EnrichIsbnsOperator(
        task_id="enrich", isbns=["9780140449136", "0306406152"], destination=str(FOLDER / "books.jsonl")
    )

if __name__ == "__main__":
    runs = {dag.dag_id: dag.test() for dag in (bulletin, export, capture, digest, enrichment)}
    (FOLDER / "states.json").write_text(json.dumps({name: str(run.state) for name, run in runs.items()}))
