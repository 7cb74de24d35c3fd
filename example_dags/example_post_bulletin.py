"""
Post a bulletin to your channel.

Needs the connection ``mediaops_video_default`` with a token that may post.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import PostBulletinOperator

with DAG(
    dag_id="mediaops_post_bulletin",
    schedule=None,
    # From Airflow 3.3 on, no retry posts twice.
    default_args={"retries": 3, "retry_delay": timedelta(minutes=1)},
    tags=["mediaops"],
    doc_md=__doc__,
):
    PostBulletinOperator(
        task_id="post",
        text="The catalogue was refreshed on {{ dag_run.run_after | ds }}.",
        # If the reply is lost, the bulletin may have been posted: the task fails, and never
        # posts again by itself.
        on_uncertain="fail",
    )
