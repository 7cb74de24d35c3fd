"""SIGKILL at chosen steps of an export with changes: whoever comes next leaves the dataset and its own changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.exporting_changes import FORMATS, FORMS
from tests.contract.fresh_python import printed_by

pytestmark = pytest.mark.long

# The whole of an attempt takes more steps, and its publication alone, on any machine.
LEAST_STEPS = {"jsonl": 15, "csv": 9, "parquet": 9}
LEAST_KILLS = 8
# Whose dataset and whose changes there may be after a death. The dataset comes first.
WORLDS = [
    ("older", ["older"]),
    ("killed", ["older"]),
    ("killed", ["older", "killed"]),
]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("changes")
    scenes = str(folder / "scenes")
    happened: dict[str, Any] = printed_by("tests.contract.exporting_changes", scenes, home=folder / "airflow")
    return happened


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("form", FORMS)
def test_the_dataset_and_its_changes_belong_together_wherever_an_attempt_was_killed(
    ended: dict[str, Any], form: str, format: str
) -> None:
    happened = ended[f"{form} {format}"]
    settled = [f".subs.{format}.checkpoint"]

    assert len(happened["deaths"]) >= LEAST_STEPS[format]
    worlds = [(death["left"]["dataset"], death["left"]["changes"]) for death in happened["deaths"]]
    # Each of them, in this order: an attempt never goes back.
    assert [world for world, before in zip(worlds, [None, *worlds], strict=False) if world != before] == WORLDS
    for death, (dataset, _) in zip(happened["deaths"], worlds, strict=True):
        retried, followed = death["retried"], death["followed"]
        whole = {"dataset": "killed", "changes": ["older", "killed"], "chained": True, "besides": settled, "same": True}
        assert retried == whole, death
        # Another run finishes what was about to be published, or else compares with what was there before that.
        assert (followed["dataset"], followed["chained"], followed["besides"]) == ("next", True, settled), death
        assert [run for run in followed["changes"] if run != "killed"] == ["older", "next"], death
        assert "killed" in followed["changes"] or dataset == "older", death


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("form", FORMS)
def test_attempts_that_are_killed_again_and_again_come_to_the_same_end(
    ended: dict[str, Any], form: str, format: str
) -> None:
    happened = ended[f"{form} {format}"]

    assert happened["kills"] >= LEAST_KILLS
    whole = {"dataset": "killed", "changes": ["older", "killed"], "chained": True, "same": True}
    assert happened["ended"] == {**whole, "besides": [f".subs.{format}.checkpoint"]}
