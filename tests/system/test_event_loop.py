"""The triggers, and the notifiers of deadlines, leave the event loop of a real triggerer free."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.system.running import wait_for
from tests.system.triggerer_watch import BY_AIRFLOW, STEPS

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Ended, Runs, WatchedAirflow

DAGS = ("system_event_loop",)
# Each is the name of its task, too.
KINDS = (
    "CpuSensorTrigger",
    "SubscriptionTrigger",
    "BookTrigger",
    "CaptureHotThreadsTrigger",
    "EnrichmentTrigger",
    "ExportSubscriptionsTrigger",
)


@pytest.fixture(scope="module")
def run(runs: Runs) -> Ended:
    return runs.ended("system_event_loop")


@pytest.fixture(scope="module")
def steps(run: Ended, airflow: WatchedAirflow, sandbox: SandboxServer, output: Path) -> list[str]:
    """Give the steps that the watch has recorded when all triggers and both notifiers have done their work."""
    assert set(run.states.values()) == {"success"}
    assert {run.tries(name) for name in run.tasks} == {1}
    wait_for(lambda: bool(airflow.run_ids("system_always_hot")), "HighCpuTrigger has started a run")
    wait_for(lambda: "system_event_loop is late." in _posted(sandbox), "the bulletin is posted")
    wait_for((output / "event_loop" / "late.json").is_file, "the capture of the notifier is written")
    return (airflow.home / STEPS).read_text().splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_a_trigger_of_each_kind_has_run_in_the_triggerer(run: Ended, kind: str) -> None:
    # Airflow may lose what it logs itself at the end of a trigger; that the task succeeded, it has seen.
    assert re.search(rf"trigger \S+/{kind}/\S+ \(ID \d+\) starting", run.log(kind))


def test_the_watch_hears_what_is_done_on_the_loop(steps: list[str]) -> None:
    """Else the test below would prove nothing: Airflow imports the classes of triggers on it."""
    assert [step for step in steps if step.startswith(BY_AIRFLOW)]


def test_nothing_of_ours_blocks_the_loop(steps: list[str]) -> None:
    assert [step for step in steps if not step.startswith(BY_AIRFLOW)] == []


def _posted(sandbox: SandboxServer) -> list[str]:
    return [bulletin["snippet"]["description"] for bulletin in list(sandbox.state.bulletins)]
