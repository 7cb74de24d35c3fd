"""Post a bulletin once a person has approved its text."""

from __future__ import annotations

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param, dag, task

from airflow_provider_mediaops.hooks.video import VideoPlatformHook
from airflow_provider_mediaops.operators.video import PostBulletinOperator


@task
def draft() -> str:
    """Write the bulletin."""
    with VideoPlatformHook() as hook:
        newest = hook.list_subscriptions(mine=True, max_results=1).subscriptions[0]
    return f"New on our list: {newest.title}."


@dag(schedule=None, default_args={"retries": 3})
def approved_bulletin() -> None:
    """Draft a bulletin, have it approved, and post it; if it is rejected, skip the post."""
    approve = ApprovalOperator(
        task_id="approve",
        subject="Post this bulletin?",
        body="{{ ti.xcom_pull(task_ids='draft') }}",
        params={"remark": Param("", type="string", description="Is appended to the bulletin.")},
    )
    post = PostBulletinOperator(
        task_id="post",
        text="{{ ti.xcom_pull(task_ids='draft') }} {{ ti.xcom_pull(task_ids='approve')['params_input']['remark'] }}",
    )
    draft() >> approve >> post


approved_bulletin()
