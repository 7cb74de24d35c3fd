"""The triggers leave the event loop of a real triggerer free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.system.triggerer_watch import LOADED, STEPS

if TYPE_CHECKING:
    from tests.system.running import Runs, WatchedAirflow

DAGS = ("mediaops_enrich_isbns", "mediaops_capture_hot_threads", "system_waiting")
TRIGGERS = ("books", "cluster", "enrichment", "hot_threads", "video")


@pytest.fixture(scope="module")
def lines(runs: Runs, airflow: WatchedAirflow) -> list[str]:
    """The file of the watch, once triggers of every kind have ended."""
    for dag_id in DAGS:
        runs.ended(dag_id)
    return (airflow.home / STEPS).read_text().splitlines()


def test_the_triggerer_has_run_triggers_of_every_kind_under_the_watch(lines: list[str]) -> None:
    """Else the test below would prove nothing."""
    assert {f"{LOADED}airflow_provider_mediaops.triggers.{name}" for name in TRIGGERS} <= set(lines)


def test_no_trigger_blocks_the_loop(lines: list[str]) -> None:
    assert [line for line in lines if not line.startswith(LOADED)] == []
