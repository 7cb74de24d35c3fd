"""SIGKILL at each step of a task that posts with a journal on the disk, and several tasks at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.bulletin_deaths import check_deaths_and_races

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.sandbox.server import SandboxServer


@pytest.mark.long
def test_nothing_is_posted_twice_with_a_journal_on_the_disk(sandbox: SandboxServer, tmp_path: Path) -> None:
    check_deaths_and_races(sandbox, str(tmp_path / "journal"), tmp_path / "own")
