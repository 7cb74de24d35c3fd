"""Bulletins posted by Airflow's own machinery: what a later try of a task makes of an earlier one's."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from airflow.sdk import DAG

from tests.contract import dag_runs
from tests.fails_after_posting import FailsAfterPosting

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer

pytestmark = pytest.mark.usefixtures("airflow_db")


@pytest.mark.parametrize(
    "journal",
    [pytest.param(False, marks=pytest.mark.airflow(">=3.3"), id="state store"), pytest.param(True, id="journal")],
)
def test_a_mapped_task_that_is_retried_after_success_returns_its_own_activity(
    sandbox: SandboxServer, tmp_path: Path, *, journal: bool
) -> None:
    text = ["one", "two"]
    with DAG("posts_once", schedule=None) as dag:
        FailsAfterPosting.partial(
            task_id="post", retries=1, retry_delay=timedelta(0), journal=str(tmp_path) if journal else None
        ).expand(text=text)

    run = dag_runs.run(dag)

    assert run.tasks == {"post[0]": "success", "post[1]": "success"}
    assert sorted(bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins) == text
    assert [run.values[f"post[{number}]"]["snippet"]["description"] for number in (0, 1)] == text


@pytest.mark.airflow("<3.3")
def test_below_airflow_3_3_a_retry_posts_again(sandbox: SandboxServer) -> None:
    with DAG("posts_again", schedule=None) as dag:
        FailsAfterPosting(task_id="post", text="one", retries=1, retry_delay=timedelta(0))

    run = dag_runs.run(dag)

    assert run.tasks == {"post": "success"}
    assert len(sandbox.state.bulletins) == 2
