"""SIGKILL at chosen steps of an export with changes: whoever comes next leaves the dataset and its own changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.exporting_changes import FORMATS, FORMS
from tests.contract.fresh_python import printed_by

pytestmark = [pytest.mark.long, pytest.mark.once]

# The whole of an attempt takes more steps, and its publication alone, on any machine.
LEAST_STEPS = {"jsonl": 15, "csv": 9, "parquet": 9}
LEAST_KILLS = 8
# Whose dataset and whose changes there may be after a death. The dataset comes first.
WORLDS = [
    ("older", ["older"]),
    ("killed", ["older"]),
    ("killed", ["older", "killed"]),
]
#: What is there once the killed run has come to its end.
WHOLE = {"dataset": "killed", "changes": ["older", "killed"], "chained": True, "besides": [], "same": True}


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
    assert len(happened["deaths"]) >= LEAST_STEPS[format]
    worlds = [(death["left"]["dataset"], death["left"]["changes"]) for death in happened["deaths"]]
    # Each of them, in this order: an attempt never goes back.
    assert [world for world, before in zip(worlds, [None, *worlds], strict=False) if world != before] == WORLDS
    for death, (dataset, _) in zip(happened["deaths"], worlds, strict=True):
        retried, followed = death["retried"], death["followed"]
        assert {key: retried[key] for key in WHOLE} == WHOLE, death
        assert followed["besides"] == [], death
        assert [run for run in followed["changes"] if run != "killed"] == ["older", "next"], death
        if followed["chained"]:
            assert followed["dataset"] == "next", death
        else:
            # The killed one has not said whose its file is. So another run compares with nothing: all records are
            # added, and it asks for none that the pages leave out.
            assert (dataset, followed["listed"], followed["anew"]) == ("killed", "next", True), death
    assert happened["deaths"][0]["followed"]["chained"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("form", FORMS)
def test_attempts_that_are_killed_again_and_again_come_to_the_same_end(
    ended: dict[str, Any], form: str, format: str
) -> None:
    happened = ended[f"{form} {format}"]

    assert happened["kills"] >= LEAST_KILLS
    assert {key: happened["ended"][key] for key in WHOLE} == WHOLE
