"""SIGKILL at random moments of an enrichment: nothing is lost, nothing is there twice, hardly anything asked again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.book_server import book_server
from tests.contract.enriching import ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.book_server import BookServer

MOST_KILLS = 60
LEAST_KILLS = 25
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[BookServer]:
    # The pause before each reply is that of three or four requests, so that as many are under way.
    with book_server(delay=0.02) as books:
        yield books


def carry_out(
    server: BookServer, folder: Path, name: str, kills: int, seed: int = 0
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Enrich in processes of its own; give what came of it, and what was asked."""
    folder.mkdir()
    server.forget()
    done = subprocess.run(
        [sys.executable, "-m", "tests.contract.enriching", server.base, str(folder), name, str(kills), str(seed)],
        cwd=ROOT,
        env={**os.environ, "AIRFLOW_HOME": str(folder.parent / "airflow")},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ended = json.loads(done.stdout.splitlines()[-1])
    assert ended["status"] == 0, done.stderr[-3000:]
    return ended, server.seen()


@pytest.mark.parametrize("name", ["books.jsonl", "books.csv"])
def test_an_enrichment_that_is_killed_again_and_again_is_that_of_an_undisturbed_run(
    server: BookServer, tmp_path: Path, name: str
) -> None:
    seed = random.randrange(10**6)  # noqa: S311 no secret
    whole, undisturbed = carry_out(server, tmp_path / "whole", name, kills=0)
    killed, disturbed = carry_out(server, tmp_path / "killed", name, MOST_KILLS, seed)

    told = f"seed {seed}: {killed}, {disturbed['requests']} requests instead of {undisturbed['requests']}"
    assert killed["kills"] >= LEAST_KILLS, told
    assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), told
    assert killed["summary"]["rows"] == ROWS
    same = dict.fromkeys(("path", "resumed", "rows_per_second", "requests"))
    assert {**killed["summary"], **same} == {**whole["summary"], **same}, told
    # Those that were under way at the moment, and one that was answered and not yet saved.
    assert set(disturbed["asked"]) == set(undisturbed["asked"])
    under_way = max(undisturbed["most"], disturbed["most"])
    assert disturbed["requests"] - undisturbed["requests"] <= killed["kills"] * (under_way + 1), told
    twice = [isbn for isbn, count in Counter(disturbed["asked"]).items() if count > killed["kills"] + 1]
    assert twice == [], told
    names = {path.name for path in (tmp_path / "killed").iterdir()}
    assert names == {name, f".{name}.checkpoint", "summary.json", "never"}, told
