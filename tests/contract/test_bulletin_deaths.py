"""SIGKILL at each step of a task that posts with a journal on the disk."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.fresh_python import printed_by

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer


@pytest.mark.long
@pytest.mark.once
def test_nothing_is_posted_twice_with_a_journal_on_the_disk(sandbox: SandboxServer, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    deaths: list[dict[str, Any]] = printed_by(
        "tests.contract.posting", str(tmp_path / "journal"), str(tmp_path / "own"), home=tmp_path / "airflow"
    )
    posted = Counter(bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins)
    ids = {bulletin["id"]: bulletin["snippet"]["description"] for bulletin in sandbox.state.bulletins}

    outcomes = []
    for death in deaths:
        count, second = posted[death["key"]], death["second"]
        if second in ids:
            assert ids[second] == death["key"], death
        outcomes.append((count, "an activity" if second in ids else second))
        assert death["first"] in ("", second), death
    # The next try posts or, once it is stored, returns the activity; between them it does not know.
    assert [outcome for outcome, _ in itertools.groupby(outcomes)] == [
        (1, "an activity"),
        (0, "UncertainDeliveryError"),
        (1, "UncertainDeliveryError"),
        (1, "an activity"),
    ], deaths
    assert not deaths[-1]["killed"]
