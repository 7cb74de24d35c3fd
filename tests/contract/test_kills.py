"""SIGKILL at random moments of an export: nothing is lost, nothing is there twice, hardly anything is asked again."""

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

from tests.page_server import A_PAGE, page_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.page_server import Pages

PAGES = 200
KILLS = 60
LEAST_KILLS = 25
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[Pages]:
    # The pause before each page lets an attempt that is killed get a few pages on, but not to the end.
    with page_server(PAGES, delay=0.002) as pages:
        yield pages


@pytest.fixture(scope="module")
def practice() -> Iterator[Pages]:
    with page_server(1) as pages:
        yield pages


def carry_out(practice: Pages, server: Pages, folder: Path, name: str, seed: int) -> dict[str, Any]:
    """Export in processes of its own, undisturbed and killed again and again; give what came of it."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.contract.killing",
            practice.base,
            server.base,
            folder,
            name,
            str(KILLS),
            str(seed),
        ],
        cwd=ROOT,
        env={**os.environ, "AIRFLOW_HOME": str(folder.parent / "airflow")},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ended: dict[str, Any] = json.loads(done.stdout)
    return ended


@pytest.mark.parametrize("name", ["subs.jsonl", "subs.csv"])
def test_an_export_that_is_killed_again_and_again_is_that_of_an_undisturbed_run(
    practice: Pages, server: Pages, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    server.forget()
    seed = random.randrange(10**6)  # noqa: S311 it is told when the test fails
    ended = carry_out(practice, server, folder, name, seed)
    told = f"seed {seed}: {ended}"
    # Each page once for the undisturbed run, then those of the attempts.
    whole, asked = server.requests()[:PAGES], Counter(server.requests()[PAGES:])

    assert whole == list(range(PAGES))
    assert (ended["status"], ended["kills"] >= LEAST_KILLS, ended["summary"]["resumed"]) == (0, True, True), told
    assert (folder / name).read_bytes() == (folder / "whole" / name).read_bytes(), told
    same = {"path": "", "resumed": ""}
    assert {**ended["summary"], **same} == {**ended["undisturbed"], **same}, told
    assert (ended["summary"]["rows"], ended["summary"]["pages"]) == (PAGES * A_PAGE, PAGES)
    # One request a kill may have been under way, or answered and not yet saved.
    assert set(asked) == set(range(PAGES))
    assert sum(asked.values()) - PAGES <= ended["kills"], told
    names = {path.name for path in folder.iterdir()}
    assert names == {name, f".{name}.checkpoint", "summary.json", "practice", "whole"}, told
