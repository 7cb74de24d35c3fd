"""The command `hot-threads --digest`: the files of a digest, and its headline."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.unit.cli.commands import command
from tests.unit.cluster.digest.captured_days import write_two_weeks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    write_two_weeks(tmp_path / "reports", every=timedelta(hours=6))
    return tmp_path / "reports"


def test_a_folder_becomes_a_page(captures: Path, tmp_path: Path) -> None:
    page = tmp_path / "week.html"
    ended = command("hot-threads", "--digest", page, "--since", "2026-11-16", "--until", "2026-11-23", captures)

    assert ended.code == 1  # two files are damaged
    assert "cut.txt: it is a web page" in ended.messages
    assert ended.output.startswith("Hot threads, 2026-11-16 to 2026-11-23: Sorting.compare in 28 of 28 scheduled")
    (row,) = (line.split() for line in ended.output.splitlines() if "org.opensearch.search.sort" in line)
    assert row[:5] == ["scheduled", "org.opensearch.search.sort.Sorting.compare", "28", "of", "28"]
    assert {path.name for path in tmp_path.glob("week.*")} == {"week.html", "week.json", "week.folded"}


def test_programs_get_the_result_of_a_task_and_the_command_can_be_given_again(captures: Path, tmp_path: Path) -> None:
    (captures / "cut.txt").unlink()
    (captures / "empty.txt").unlink()
    results = []
    for _ in range(2):
        ended = command("hot-threads", "--digest", tmp_path / "all.html", captures, "-o", "json")
        assert ended.code == 0
        results.append(json.loads(ended.output))
        (captures / "spikes" / "2026-11-17T1407.txt").unlink(missing_ok=True)
        (captures / "spikes" / "2026-11-17T1407.json").unlink(missing_ok=True)
    assert [result["series"]["spike"] for result in results] == [3, 2]


def test_a_digest_of_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    ended = command("hot-threads", "--digest", tmp_path / "x.html", tmp_path / "in")
    assert ended.code == 1
    assert "There is nothing to digest" in ended.messages
