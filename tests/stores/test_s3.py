"""Checkpointed datasets on a real server that speaks S3: all that holds elsewhere, and a server that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.unit.storage.places import Place, StoppedError, owner, rows, stopped

# What holds on every kind of place is shown here again, with this folder's place.
from tests.unit.storage.test_published import *  # noqa: F403
from tests.unit.storage.test_staging import *  # noqa: F403

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stores.s3_server import S3Server


def commit_until(place: Place, s3: S3Server, stop: int) -> None:
    """Commit batches until the server fails."""
    with place.dataset().staging(owner()) as staging:
        for number in range(stop + 1):
            if number == stop:
                s3.stop()
            staging.commit(rows(number, 1), {"number": number})


def test_a_server_that_fails_in_the_middle_has_all_that_was_committed(place: Place, s3: S3Server) -> None:
    try:
        with pytest.raises(OSError, match=r"d\.jsonl cannot be written: .*goes on after 5 rows"):
            commit_until(place, s3, 5)
    finally:
        s3.start()

    with place.dataset().staging(owner()) as staging:
        assert (staging.resumed, staging.rows, staging.state) == (True, 5, {"number": 4})
        staging.commit(rows(5), {"number": 5})
    assert place.lines() == rows(0, 7)
    assert place.names() == [".d.jsonl.checkpoint", "d.jsonl"]


def test_hundreds_of_commits_become_few_segments_and_are_resumed_and_removed(place: Place) -> None:
    with stopped(), place.dataset().staging(owner()) as staging:
        for number in range(230):
            staging.commit(rows(number, 1), {"number": number})
        raise StoppedError
    # All in one segment, and the copies since superseded ones were last removed.
    assert sum("-after-" in name for name in place.names()) <= 16
    with place.dataset().staging(owner()) as staging:
        assert (staging.rows, staging.state) == (230, {"number": 229})

    assert place.lines() == rows(0, 230)
    assert place.names() == [".d.jsonl.checkpoint", "d.jsonl"]


def test_a_file_that_is_sent_in_several_requests_appears_whole(place: Place, tmp_path: Path) -> None:
    big = "x" * 1_000_000
    with place.dataset().staging(owner()) as staging:
        for number in range(12):
            staging.commit([{"id": f"{number}{big}"}], None)
    assert len(place.read("d.jsonl")) == staging.summary["bytes"] > 12_000_000

    with place.dataset("d.parquet").staging(owner()) as staging:
        staging.commit(rows(0, 1000), None)
    (tmp_path / "d.parquet").write_bytes(place.read("d.parquet"))
    assert pq.read_table(tmp_path / "d.parquet").to_pylist() == rows(0, 1000)
