"""Bulletins posted by Airflow's own machinery: what a later try of a task makes of an earlier one's."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from airflow.sdk import DAG

from airflow_provider_mediaops.notifications import PostBulletinNotifier
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.video import PostBulletinOperator
from tests.contract import dag_runs
from tests.fails_after_posting import FailsAfterPosting

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer

pytestmark = pytest.mark.usefixtures("airflow_db")


@pytest.mark.airflow(">=3.3")
def test_a_mapped_task_that_is_retried_after_success_returns_its_own_activity(sandbox: SandboxServer) -> None:
    with DAG("posts_once", schedule=None) as dag:
        FailsAfterPosting.partial(task_id="post", retries=1, retry_delay=timedelta(0)).expand(text=["one", "two"])

    run = dag_runs.run(dag)

    assert run.tasks == {"post[0]": "success", "post[1]": "success"}
    assert sorted(texts_of(sandbox)) == ["one", "two"]
    assert [run.values[f"post[{number}]"]["snippet"]["description"] for number in (0, 1)] == ["one", "two"]


@pytest.mark.airflow("<3.3")
def test_below_airflow_3_3_a_retry_posts_again(sandbox: SandboxServer) -> None:
    with DAG("posts_again", schedule=None) as dag:
        FailsAfterPosting(task_id="post", text="one", retries=1, retry_delay=timedelta(0))

    run = dag_runs.run(dag)

    assert run.tasks == {"post": "success"}
    assert len(sandbox.state.bulletins) == 2


@pytest.mark.parametrize("text", [["one", "two"]])
def test_with_a_journal_a_retry_returns_its_own_activity_on_every_airflow(
    sandbox: SandboxServer, tmp_path: Path, text: list[str]
) -> None:
    with DAG("posts_by_a_journal", schedule=None) as dag:
        FailsAfterPosting.partial(task_id="post", retries=1, retry_delay=timedelta(0), journal=str(tmp_path)).expand(
            text=text
        )

    run = dag_runs.run(dag)

    assert run.tasks == {"post[0]": "success", "post[1]": "success"}
    assert sorted(texts_of(sandbox)) == text
    assert [run.values[f"post[{number}]"]["snippet"]["description"] for number in (0, 1)] == text


def test_the_runs_and_dags_of_a_day_post_once(sandbox: SandboxServer, tmp_path: Path) -> None:
    days = [datetime(2026, 11, day, tzinfo=timezone.utc) for day in (22, 23, 22)]
    activities = []
    for number, day in enumerate(days):
        with DAG(f"of_the_day_{number}", schedule=None) as dag:
            PostBulletinOperator(
                task_id="post",
                text="Of {{ logical_date | ds }}",
                journal=(tmp_path / "journal").as_uri(),
                once_per="{{ logical_date | ds }}",
            )
        activities.append(dag_runs.run(dag, logical_date=day).values["post"]["id"])

    assert texts_of(sandbox) == ["Of 2026-11-22", "Of 2026-11-23"]
    assert activities[0] == activities[2] != activities[1]


def test_one_notifier_posts_once_for_all_tasks_that_fail(sandbox: SandboxServer, tmp_path: Path) -> None:
    with DAG("all_fail", schedule=None) as dag:
        for number in range(3):
            EnrichIsbnsOperator(
                task_id=f"enrich_{number}",
                isbns=["978-0"],
                on_invalid="fail",
                destination=f"{tmp_path}/{number}.jsonl",
                on_failure_callback=PostBulletinNotifier(
                    text="{{ ti.task_id }} failed",
                    journal=f"{tmp_path}/journal",
                    once_per="{{ dag.dag_id }} of {{ dag_run.run_after | ds }}",
                ),
            )

    run = dag_runs.run(dag)

    assert set(run.tasks.values()) == {"failed"}
    assert len(texts_of(sandbox)) == 1


def texts_of(sandbox: SandboxServer) -> list[str]:
    return [bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins]
