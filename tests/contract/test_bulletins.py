"""Bulletins posted by Airflow's own machinery: what a later try of a task makes of an earlier one's."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.contract import dag_runs

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mediaops.sandbox.server import SandboxServer

pytestmark = pytest.mark.usefixtures("airflow_db")


class FailsAfterPosting(PostBulletinOperator):
    """Its first try fails when all is done, as one does whose return value cannot be stored."""

    def execute(self, context: Context) -> dict[str, Any]:
        activity = super().execute(context)
        if context["ti"].try_number == 1:
            raise OSError("The worker's disk is full.")
        return activity


@pytest.mark.airflow(">=3.3")
def test_a_mapped_task_that_is_retried_after_success_returns_its_own_activity(sandbox: SandboxServer) -> None:
    with DAG("posts_once", schedule=None) as dag:
        FailsAfterPosting.partial(task_id="post", retries=1, retry_delay=timedelta(0)).expand(text=["one", "two"])

    run = dag_runs.run(dag)

    assert run.tasks == {"post[0]": "success", "post[1]": "success"}
    texts = [bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins]
    assert sorted(texts) == ["one", "two"]
    assert [run.values[f"post[{number}]"]["snippet"]["description"] for number in (0, 1)] == ["one", "two"]


@pytest.mark.airflow("<3.3")
def test_below_airflow_3_3_a_retry_posts_again(sandbox: SandboxServer) -> None:
    with DAG("posts_again", schedule=None) as dag:
        FailsAfterPosting(task_id="post", text="one", retries=1, retry_delay=timedelta(0))

    run = dag_runs.run(dag)

    assert run.tasks == {"post": "success"}
    assert len(sandbox.state.bulletins) == 2
