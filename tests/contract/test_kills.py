"""
SIGKILL at chosen steps: nothing is lost or there twice, and hardly anything is asked for again.

The models kill attempts at each step of a made-up place, also in the triggerer. Here, processes and files are real.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.book_server import book_server
from tests.contract.enriching import MISSING, ROWS
from tests.contract.exporting import PAGES
from tests.contract.exporting_changes import FORMS
from tests.contract.fresh_python import printed_by
from tests.contract.killing import carry_out
from tests.page_server import A_PAGE, page_server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.once]

# A part takes a few more steps, and the whole a few more attempts, on any machine.
LEAST_STEPS, LEAST_KILLS = 10, 20
# Of an export with changes, which is shorter: whose dataset and whose changes there may be after a death. The dataset
# comes first.
WORLDS = [("older", ["older"]), ("killed", ["older"]), ("killed", ["older", "killed"])]
LEAST_STEPS_WITH_CHANGES, LEAST_KILLS_WITH_CHANGES = 15, 8
#: What is there once the killed run has come to its end.
WHOLE = {"dataset": "killed", "changes": ["older", "killed"], "chained": True, "besides": [], "same": True}


def check(ended: dict[str, Any], folder: Path, name: str, varies: tuple[str, ...]) -> None:
    """Make sure that attempts that were killed have come to the end of an undisturbed one."""
    for deaths in ended["deaths"].values():
        assert len(deaths) >= LEAST_STEPS, ended
        assert all(same for same, _ in deaths), ended
    assert ended["kills"] >= LEAST_KILLS, ended
    assert ended["summary"]["resumed"], ended
    assert (folder / name).read_bytes() == (folder / "whole" / name).read_bytes(), ended
    same = dict.fromkeys(("path", "resumed", *varies))
    assert {**ended["summary"], **same} == {**ended["undisturbed"], **same}, ended
    names = {path.name for path in folder.iterdir()} - {"list.csv"}
    assert names == {name, f".{name}.staging", "summary.json", "practice", "whole"}, ended


def test_an_export_that_is_killed_again_and_again_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    folder, name = tmp_path / "out", "subs.csv"
    with page_server(4) as practice, page_server(PAGES) as server:
        ended = carry_out("tests.contract.exporting", practice.base, server.base, folder, name)
        # Each page once for the undisturbed run, then those of the attempts.
        whole, asked = server.requests()[:PAGES], Counter(server.requests()[PAGES:])

    check(ended, folder, name, ())
    assert whole == list(range(PAGES))
    assert all(sent_again <= 1 for deaths in ended["deaths"].values() for _, sent_again in deaths), ended
    assert (ended["summary"]["rows"], ended["summary"]["pages"]) == (PAGES * A_PAGE, PAGES)
    # One request a kill may have been under way, or answered and not yet saved.
    assert set(asked) == set(range(PAGES))
    assert sum(asked.values()) - PAGES <= ended["kills"], ended


def test_an_enrichment_that_is_killed_again_and_again_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    folder, name = tmp_path / "out", "books.csv"
    # A pause before each reply lets a few requests be under way at a time.
    with book_server() as practice, book_server(delay=0.02) as server:
        ended = carry_out("tests.contract.enriching", practice.base, server.base, folder, name)
        seen = server.seen()
    # Those of the undisturbed run, then those of the attempts.
    requests = ended["undisturbed"]["requests"]
    whole, asked = Counter(seen["asked"][:requests]), Counter(seen["asked"][requests:])

    check(ended, folder, name, ("rows_per_second", "requests"))
    # A book may be asked for once more, as a probe that the service finds books while it reports another missing.
    assert sum(whole.values()) - len(whole) <= MISSING
    assert ended["summary"]["rows"] == ROWS
    # For each kill those that were under way, one that was answered and not yet saved, and a probe.
    assert set(asked) == set(whole)
    assert sum(asked.values()) - requests <= ended["kills"] * (seen["most"] + 2), ended
    assert max(asked.values()) <= ended["kills"] + 1, ended


class TestExportWithChanges:
    """Whoever comes after a death leaves the dataset and its own changes."""

    @pytest.fixture(scope="class")
    def ended(self, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("changes")
        scenes = str(folder / "scenes")
        happened: dict[str, Any] = printed_by("tests.contract.exporting_changes", scenes, home=folder / "airflow")
        return happened

    @pytest.mark.parametrize("form", FORMS)
    def test_the_dataset_and_its_changes_belong_together_wherever_an_attempt_was_killed(
        self, ended: dict[str, Any], form: str
    ) -> None:
        deaths = ended[form]["deaths"]
        assert len(deaths) >= LEAST_STEPS_WITH_CHANGES
        worlds = [(death["left"]["dataset"], death["left"]["changes"]) for death in deaths]
        # Each of them, in this order: an attempt never goes back.
        assert [world for world, before in zip(worlds, [None, *worlds], strict=False) if world != before] == WORLDS
        for death, (dataset, _) in zip(deaths, worlds, strict=True):
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
        assert deaths[0]["followed"]["chained"]

    @pytest.mark.parametrize("form", FORMS)
    def test_attempts_that_are_killed_again_and_again_come_to_the_same_end(
        self, ended: dict[str, Any], form: str
    ) -> None:
        assert ended[form]["kills"] >= LEAST_KILLS_WITH_CHANGES
        assert {key: ended[form]["ended"][key] for key in WHOLE} == WHOLE
