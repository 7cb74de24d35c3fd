"""Run a DAG of operators that write, and write down what Airflow knows afterwards; run as a program."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from airflow.models.asset import AssetEvent
from airflow.models.xcom import XComModel
from airflow.sdk import DAG, Asset, AssetAlias
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from tests.contract import dag_runs

#: The file in which the program writes: what it prints is mixed with the log.
KNOWN = "known.json"
#: What stands between scheme and path of a destination: Airflow takes it for a connection.
USERINFO = "key:hunter2-the-secret"


def make(folder: Path) -> DAG:
    """Return a DAG whose tasks end in each way."""
    source = folder / "list.csv"
    source.write_text("isbn,price\n9780140449136,9.5\n978-0,1\n")
    quick: dict[str, Any] = {"interval": "10ms", "snapshots": 2}
    with DAG("lineage", schedule=None) as dag:
        PostBulletinOperator(task_id="post", text="New", outlets=[Asset("bulletins")])
        ExportSubscriptionsOperator(
            task_id="export",
            mine=True,
            destination=f"{folder}/{{{{ ti.task_id }}}}.parquet",
            outlets=[Asset("subscriptions"), AssetAlias("exports")],
            do_xcom_push=False,
        )
        EnrichIsbnsOperator.partial(
            task_id="enrich", source=str(source), outlets=[AssetAlias("books")], deferrable=True
        ).expand(destination=[f"file://{USERINFO}@{folder}/{name}.csv" for name in "ab"])
        CaptureHotThreadsOperator(
            task_id="capture", destination=f"{folder}/hot.txt", outlets=[Asset("hot_threads")], **quick
        )
        ExportSubscriptionsOperator(
            task_id="fail",
            mine=True,
            destination=f"{folder}/fail.csv",
            video_conn_id="there_is_none",
            outlets=[Asset("none")],
        )
    return dag


def main(folder: Path) -> None:
    """Run the DAG, and write down the tasks' states, their assets' events and their links."""
    run = dag_runs.run(make(folder))
    with create_session() as session:
        events = [
            [event.source_task_id, event.source_map_index, event.asset.uri, event.extra]
            for event in session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.run_id))
        ]
        of_run = select(XComModel).where(XComModel.run_id == run.run_id, XComModel.key.startswith("_link_"))
        links = {f"{row.task_id}[{row.map_index}]": XComModel.deserialize_value(row) for row in session.scalars(of_run)}
    known = {"run_id": run.run_id, "tasks": run.tasks, "events": events, "links": links}
    (folder / KNOWN).write_text(json.dumps(known))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
