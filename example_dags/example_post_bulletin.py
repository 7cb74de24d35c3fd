"""
Post a bulletin to your channel.

Needs the connection ``mediaops_video_default`` with a token that may post.
"""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import PostBulletinOperator

with DAG(dag_id="mediaops_post_bulletin", schedule=None, catchup=False, tags=["mediaops"], doc_md=__doc__):
    PostBulletinOperator(
        task_id="post",
        text="The catalogue was refreshed (run {{ run_id }}).",
        # A reply that was lost ends the task: the bulletin may be posted, and is never posted twice by itself.
        on_uncertain="fail",
    )
