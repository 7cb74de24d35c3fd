"""SIGKILL at random moments of an enrichment: nothing is lost, nothing is there twice, hardly anything asked again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.book_server import book_server
from tests.contract.enriching import ROWS
from tests.contract.killing import LEAST_KILLS, carry_out

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.book_server import BookServer


@pytest.fixture(scope="module")
def server() -> Iterator[BookServer]:
    # The pause before each reply is that of three or four requests, so that as many are under way.
    with book_server(delay=0.02) as books:
        yield books


@pytest.fixture(scope="module")
def practice() -> Iterator[BookServer]:
    with book_server() as books:
        yield books


@pytest.mark.parametrize("name", ["books.jsonl", "books.csv"])
def test_an_enrichment_that_is_killed_again_and_again_is_that_of_an_undisturbed_run(
    practice: BookServer, server: BookServer, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "out"
    server.forget()
    ended = carry_out("tests.contract.enriching", practice.base, server.base, folder, name)
    seen = server.seen()
    # Each book once for the undisturbed run, then those of the attempts.
    requests = ended["undisturbed"]["requests"]
    whole, asked = Counter(seen["asked"][:requests]), Counter(seen["asked"][requests:])

    assert set(whole.values()) == {1}
    assert ended["kills"] >= LEAST_KILLS, ended
    assert ended["summary"]["resumed"], ended
    assert (folder / name).read_bytes() == (folder / "whole" / name).read_bytes(), ended
    same = dict.fromkeys(("path", "resumed", "rows_per_second", "requests"))
    assert {**ended["summary"], **same} == {**ended["undisturbed"], **same}, ended
    assert ended["summary"]["rows"] == ROWS
    # Those that were under way at the moment, and one that was answered and not yet saved.
    assert set(asked) == set(whole)
    assert sum(asked.values()) - requests <= ended["kills"] * (seen["most"] + 1), ended
    assert max(asked.values()) <= ended["kills"] + 1, ended
    names = {path.name for path in folder.iterdir()}
    assert names == {name, f".{name}.checkpoint", "summary.json", "practice", "whole"}, ended
