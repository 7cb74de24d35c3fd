"""SIGKILL at chosen steps of an enrichment: nothing is lost or there twice; hardly anything is asked again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.book_server import book_server
from tests.contract.enriching import MISSING, ROWS
from tests.contract.killing import carry_out
from tests.contract.refreshing import FAILING
from tests.contract.refreshing import ROWS as REFRESHED_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.book_server import BookServer

pytestmark = [pytest.mark.long, pytest.mark.once]

# A part takes more steps, and the whole more attempts, on any machine.
LEAST_STEPS, LEAST_STEPS_OF_PUBLICATION, LEAST_KILLS = 10, 10, 20


@pytest.fixture(scope="module")
def server() -> Iterator[BookServer]:
    # A pause before each reply lets a few requests be under way at a time.
    with book_server(delay=0.02) as books:
        yield books


@pytest.fixture(scope="module")
def practice() -> Iterator[BookServer]:
    with book_server() as books:
        yield books


def test_an_enrichment_that_is_killed_again_and_again_is_that_of_an_undisturbed_run(
    practice: BookServer, server: BookServer, tmp_path: Path
) -> None:
    folder, name = tmp_path / "out", "books.csv"
    server.forget()
    ended = carry_out("tests.contract.enriching", practice.base, server.base, folder, name)
    seen = server.seen()
    # Those of the undisturbed run, then those of the attempts.
    requests = ended["undisturbed"]["requests"]
    whole, asked = Counter(seen["asked"][:requests]), Counter(seen["asked"][requests:])

    # A book may be asked for once more, as a probe that the service finds books while it reports another missing.
    assert sum(whole.values()) - len(whole) <= MISSING
    for deaths in ended["deaths"].values():
        assert len(deaths) >= LEAST_STEPS, ended
        assert all(same for same, *_ in deaths), ended
    for deaths in ended["publishing"].values():
        assert len(deaths) >= LEAST_STEPS_OF_PUBLICATION, ended
        assert all(same and not sent_by_the_next for same, _, sent_by_the_next in deaths), ended
    assert ended["kills"] >= LEAST_KILLS, ended
    assert ended["summary"]["resumed"], ended
    assert (folder / name).read_bytes() == (folder / "whole" / name).read_bytes(), ended
    same = dict.fromkeys(("path", "resumed", "rows_per_second", "requests"))
    assert {**ended["summary"], **same} == {**ended["undisturbed"], **same}, ended
    assert ended["summary"]["rows"] == ROWS
    # For each kill those that were under way, one that was answered and not yet saved, and a probe.
    assert set(asked) == set(whole)
    assert sum(asked.values()) - requests <= ended["kills"] * (seen["most"] + 2), ended
    assert max(asked.values()) <= ended["kills"] + 1, ended
    names = {path.name for path in folder.iterdir()}
    assert names == {name, f".{name}.staging", "list.csv", "summary.json", "practice", "whole"}, ended


def test_a_catalogue_that_is_kept_fresh_in_place_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    folder, name = tmp_path / "out", "books.csv"
    with book_server(failing=FAILING) as practice, book_server(delay=0.02, failing=FAILING) as server:
        ended = carry_out("tests.contract.refreshing", practice.base, server.base, folder, name)

    for deaths in ended["deaths"].values():
        assert len(deaths) >= LEAST_STEPS, ended
        assert all(same for same, *_ in deaths), ended
    for deaths in ended["publishing"].values():
        assert len(deaths) >= LEAST_STEPS_OF_PUBLICATION, ended
        assert all(same and not sent_by_the_next for same, _, sent_by_the_next in deaths), ended
    assert ended["kills"] >= LEAST_KILLS, ended
    assert (folder / name).read_bytes() == (folder / "whole" / name).read_bytes(), ended
    same = dict.fromkeys(("path", "resumed", "rows_per_second", "requests"))
    assert {**ended["summary"], **same} == {**ended["undisturbed"], **same}, ended
    # What is too old, and about which the service fails, stays as it was.
    assert (ended["summary"]["rows"], ended["summary"]["failed"]) == (REFRESHED_ROWS, 0)
    assert ended["summary"]["refresh_failed"] == len(FAILING)
    assert ended["summary"]["stale"] >= len(FAILING)
    # Three of each ten, and the rows that name one of these books again.
    assert ended["summary"]["reused"] >= 3 * REFRESHED_ROWS // 10
    assert {path.name for path in folder.iterdir()} == {
        name,
        f".{name}.staging",
        "list.csv",
        "summary.json",
        "practice",
        "whole",
    }, ended
