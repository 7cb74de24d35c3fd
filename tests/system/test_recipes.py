"""The recipes that need more than one run of one DAG: a person who approves, and a DAG that starts another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts.local_airflow import FINAL_STATES
from tests.system.running import ended, wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.system.running import Runs, WatchedAirflow

APPROVED, LISTED = "approved_bulletin", "new_list"  # docs/recipes


@pytest.mark.parametrize("answer", ["Approve", "Reject"])
def test_a_bulletin_is_posted_if_it_was_approved(
    airflow: WatchedAirflow, sandbox: SandboxServer, output: Path, answer: str
) -> None:
    def posted() -> list[str]:
        # Other runs post as well, some of them by a callback after their end.
        texts = [bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins]
        return [text for text in texts if text == "We follow 1234 channels now."]

    before = len(posted())
    run_id = airflow.trigger(APPROVED, {"folder": f"{output.as_uri()}/{APPROVED}"})
    # An answer that comes before the task has parked itself may be lost on SQLite, which locks no rows.
    wait_for(lambda: airflow.waits_for_a_person(APPROVED, run_id, "approve"), "the task asks for an approval")
    assert len(posted()) == before

    def answered_to_the_end() -> bool:
        # A task that is tried again asks again.
        if airflow.waits_for_a_person(APPROVED, run_id, "approve"):
            airflow.answer(APPROVED, run_id, "approve", answer)
        return airflow.state(APPROVED, run_id) in FINAL_STATES

    wait_for(answered_to_the_end, "the run has ended", 1800)
    run = ended(airflow, APPROVED, run_id)

    assert run.state == "success", run.log("approve")
    assert run.states["post"] == ("success" if answer == "Approve" else "skipped")
    assert len(posted()) - before == (1 if answer == "Approve" else 0)


def test_a_new_list_is_enriched_by_the_dag_that_waits_for_it(runs: Runs, airflow: WatchedAirflow, output: Path) -> None:
    runs.all_ended()
    airflow.unpause("enrich_new_list")
    run_id = airflow.trigger("write_list", {"folder": f"{output.as_uri()}/{LISTED}"})
    assert ended(airflow, "write_list", run_id).state == "success"
    wait_for(lambda: bool(airflow.run_ids("enrich_new_list")), "the event has started a run")
    [started] = airflow.run_ids("enrich_new_list")
    run = ended(airflow, "enrich_new_list", started)

    assert run.states == {"lists": "success", "enrich[0]": "success"}
    [dataset] = (output / LISTED).glob("[!.]*.jsonl")
    rows = [json.loads(line) for line in dataset.read_text().splitlines()]
    assert [(row["status"], row["source"]["shelf"]) for row in rows] == [("found", "A1"), ("found", "B2")]
