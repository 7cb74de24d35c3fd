"""Notifiers in each kind of callback of a real Airflow: each finds its names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.system.running import wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Runs, WatchedAirflow

DAG_ID, WITHOUT_TASKS = "system_callbacks", "system_callbacks_without_tasks"
DAGS = (DAG_ID, WITHOUT_TASKS)
PLACES = ("triggerer", "executor")


def posted(sandbox: SandboxServer, start: str) -> set[str]:
    texts = [bulletin["snippet"]["description"] for bulletin in list(sandbox.state.bulletins)]
    # Airflow may call twice for a task whose worker was lost.
    repeated = {text for text in texts if texts.count(text) > 1}
    assert all("loses_its_worker" in text for text in repeated), repeated
    return {text.removeprefix(start) for text in texts if text.startswith(start)}


@pytest.fixture(scope="module")
def alerts(runs: Runs, airflow: WatchedAirflow) -> list[tuple[str, str]]:
    """Wait for the run, and for its alerts: give the last word of each one's text, or its file, and its state."""
    runs.ended(DAG_ID)
    wait_for(
        lambda: {state for _, state in airflow.callback_states(DAG_ID)} <= {"success", "failed"},
        "all alerts have ended",
    )
    return airflow.callback_states(DAG_ID)


@pytest.mark.usefixtures("alerts")
def test_notifiers_of_a_late_run_that_fails_post_what_they_know(runs: Runs, sandbox: SandboxServer) -> None:
    run = runs.ended(DAG_ID)
    day = run.run_id.removeprefix("manual__").partition("T")[0]
    start = f"{DAG_ID} in {run.run_id} of {day}: "
    expected = {
        "fails failed: no such file",
        "loses_its_worker failed: no error is known",
        "the run failed.",
        "late, says the triggerer.",
        "late, says the executor.",
    }
    # The DAG processor calls after the end.
    wait_for(lambda: len(posted(sandbox, start)) == len(expected), "the DAG processor has called the notifiers")
    assert posted(sandbox, start) == expected


def test_a_notifier_that_fails_does_the_next_one_no_harm_and_the_log_says_so(runs: Runs) -> None:
    log = runs.ended(DAG_ID).log
    wait_for(lambda: "PermissionDeniedError" in log("fails"), "the failure of the notifier is in the log of the task")


def test_notifier_of_a_run_without_tasks_posts_what_it_knows(runs: Runs, sandbox: SandboxServer) -> None:
    start = f"{WITHOUT_TASKS} in {runs.ended(WITHOUT_TASKS).run_id}: "
    wait_for(lambda: posted(sandbox, start) == {"the run succeeded."}, "the DAG processor has called the notifier")


@pytest.mark.parametrize("where", PLACES)
def test_alert_writes_a_capture_into_the_folder_of_its_run(
    runs: Runs, alerts: list[tuple[str, str]], output: Path, where: str
) -> None:
    assert (f"{where}.txt", "success") in alerts
    assert (output / "late" / runs.ended(DAG_ID).run_id / f"{where}.txt").stat().st_size > 0
