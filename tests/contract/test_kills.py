"""
SIGKILL at chosen steps: nothing is lost or there twice, and hardly anything is asked for again.

The models kill attempts at each step of a made-up place, also in the triggerer, and the tests of storage at each
operation, between a dataset and its changes too. Here, processes and files are real.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.book_server import book_server
from tests.contract.enriching import MISSING, ROWS
from tests.contract.exporting import PAGES
from tests.contract.killing import carry_out
from tests.page_server import A_PAGE, page_server

pytestmark = [pytest.mark.long, pytest.mark.once]

# The whole takes a few more attempts, on any machine.
LEAST_KILLS = 20


def check(ended: dict[str, Any], folder: Path, name: str, varies: tuple[str, ...]) -> None:
    """Make sure that attempts that were killed have come to the end of an undisturbed one."""
    assert ended["kills"] >= LEAST_KILLS, ended
    assert ended["summary"]["resumed"], ended
    assert (folder / name).read_bytes() == (folder / "whole" / name).read_bytes(), ended
    same = dict.fromkeys(("path", "resumed", *varies))
    assert {**ended["summary"], **same} == {**ended["undisturbed"], **same}, ended
    names = {path.name for path in folder.iterdir()} - {"list.csv"}
    assert names == {name, f".{name}.staging", "summary.json", "whole"}, ended


def test_an_export_that_is_killed_again_and_again_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    folder, name = tmp_path / "out", "subs.csv"
    with page_server(PAGES) as server:
        ended = carry_out("tests.contract.exporting", server.base, folder, name)
        # Each page once for the undisturbed run, then those of the attempts.
        whole, asked = server.requests()[:PAGES], Counter(server.requests()[PAGES:])

    check(ended, folder, name, ())
    assert whole == list(range(PAGES))
    assert (ended["summary"]["rows"], ended["summary"]["pages"]) == (PAGES * A_PAGE, PAGES)
    # One request a kill may have been under way, or answered and not yet saved.
    assert set(asked) == set(range(PAGES))
    assert sum(asked.values()) - PAGES <= ended["kills"], ended


def test_an_enrichment_that_is_killed_again_and_again_is_that_of_an_undisturbed_run(tmp_path: Path) -> None:
    folder, name = tmp_path / "out", "books.csv"
    # A pause before each reply lets a few requests be under way at a time.
    with book_server(delay=0.02) as server:
        ended = carry_out("tests.contract.enriching", server.base, folder, name)
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
