"""SIGKILL at chosen steps of an export, in a worker and a triggerer: nothing is lost, and a page is asked for again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.contract.exporting import PAGES
from tests.contract.killing import carry_out
from tests.page_server import A_PAGE, page_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.page_server import Pages

pytestmark = [pytest.mark.long, pytest.mark.once]

# A part takes a few more steps, and the whole a few more attempts, on any machine.
LEAST_STEPS, LEAST_STEPS_OF_PUBLICATION, LEAST_KILLS = 10, 10, 20


@pytest.fixture(scope="module")
def server() -> Iterator[Pages]:
    with page_server(PAGES) as pages:
        yield pages


@pytest.fixture(scope="module")
def practice() -> Iterator[Pages]:
    with page_server(4) as pages:
        yield pages


@pytest.mark.parametrize("program", ["exporting", "exporting_in_triggerer"])
def test_an_export_that_is_killed_again_and_again_is_that_of_an_undisturbed_run(
    practice: Pages, server: Pages, tmp_path: Path, program: str
) -> None:
    folder, name = tmp_path / "out", "subs.csv"
    server.forget()
    ended = carry_out(f"tests.contract.{program}", practice.base, server.base, folder, name)
    # Each page once for the undisturbed run, then those of the attempts.
    whole, asked = server.requests()[:PAGES], Counter(server.requests()[PAGES:])

    assert whole == list(range(PAGES))
    for deaths in ended["deaths"].values():
        assert len(deaths) >= LEAST_STEPS, ended
        assert all(same and sent_again <= 1 for same, sent_again, _ in deaths), ended
    for deaths in ended["publishing"].values():
        assert len(deaths) >= LEAST_STEPS_OF_PUBLICATION, ended
        assert all(same and not sent_by_the_next for same, _, sent_by_the_next in deaths), ended
    assert ended["kills"] >= LEAST_KILLS, ended
    assert ended["summary"]["resumed"], ended
    assert (folder / name).read_bytes() == (folder / "whole" / name).read_bytes(), ended
    same = {"path": "", "resumed": ""}
    assert {**ended["summary"], **same} == {**ended["undisturbed"], **same}, ended
    assert (ended["summary"]["rows"], ended["summary"]["pages"]) == (PAGES * A_PAGE, PAGES)
    # One request a kill may have been under way, or answered and not yet saved.
    assert set(asked) == set(range(PAGES))
    assert sum(asked.values()) - PAGES <= ended["kills"], ended
    names = {path.name for path in folder.iterdir()}
    assert names == {name, f".{name}.staging", "summary.json", "practice", "whole"}, ended
