"""Notifiers called by Airflow, and runs that it starts by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.sandbox.faults import LimitFault
from tests.system.running import ended, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Runs, WatchedAirflow

ISBN = "9780141439518"
DAGS = ("system_events",)
# The first is the reply 404 that does not say whether the book or the key is meant, the second 429.
FAULTS = (LimitFault(service="books", path=f"/book/{ISBN}", count=2),)


def test_bulletins_tell_of_a_task_a_run_and_a_deadline(runs: Runs, sandbox: SandboxServer) -> None:
    runs.ended("system_events")
    # The second is posted by the DAG processor, the third by the triggerer, both in their own time.
    expected = {"refresh_catalogue has succeeded.", "system_events has succeeded.", "system_events is late."}

    def posted() -> list[str]:
        texts = [bulletin["snippet"]["description"] for bulletin in list(sandbox.state.bulletins)]
        return [text for text in texts if text in expected]

    wait_for(lambda: set(posted()) == expected, "all three are posted")
    assert len(posted()) == len(expected)


def test_hot_threads_are_captured_when_a_task_ends(runs: Runs, output: Path) -> None:
    runs.ended("system_events")
    # Airflow calls the notifiers of a task when it has already been told of its success.
    files = [output / f"refresh_catalogue.{suffix}" for suffix in ("txt", "json")]
    wait_for(lambda: all(file.is_file() for file in files), "the capture of the notifier is written")
    assert (output / "refresh_catalogue.txt").read_text().startswith("::: {sandbox-")


def test_a_notifier_that_fails_does_the_task_no_harm(runs: Runs) -> None:
    run = runs.ended("system_events")
    assert run.states == {"refresh_catalogue": "success"}
    told = "PostBulletinNotifier failed, and the run goes on: PermissionDeniedError"
    wait_for(lambda: told in run.log("refresh_catalogue"), "the failure of the notifier is in the log of the task")


def test_a_run_started_by_an_asset_waits_and_succeeds(
    runs: Runs, airflow: WatchedAirflow, sandbox: SandboxServer
) -> None:
    runs.ended("system_events")
    wait_for(lambda: bool(airflow.run_ids("system_started_by_asset")), "the asset has started a run")
    (run_id,) = airflow.run_ids("system_started_by_asset")
    run = ended(airflow, "system_started_by_asset", run_id)
    assert airflow.logical_date(run.dag_id, run_id) is None
    assert run.states == {"wait_for_book": "success"}
    assert run.value("wait_for_book")["isbn13"] == ISBN
    asked = [request for request in list(sandbox.state.requests) if request.path.endswith(f"/book/{ISBN}")]
    assert [request.fault for request in asked] == ["limit", "limit", None]
