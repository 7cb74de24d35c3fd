"""What does not fit into memory: scratch files and databases under no name, and sets of any number of texts."""

from __future__ import annotations

import os
import tempfile
import tracemalloc
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.storage import scratch
from airflow_provider_mediaops.storage.scratch import ScratchFile, SeenSet, scratch_database
from tests.unit.full_disk import fill_the_disk


def test_a_scratch_database_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    database = scratch_database("CREATE TABLE seen (text TEXT)")
    try:
        database.executemany("INSERT INTO seen VALUES (?)", [("x" * 10_000,)] * 1_000)
        assert list(tmp_path.iterdir()) == []
    finally:
        database.close()


def test_a_scratch_file_has_no_name_and_is_read_at_any_place_while_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file = ScratchFile()
    places = [(file.write([b"%06d" % number]).start, b"%06d" % number) for number in range(10_000)]

    assert [file.read(start, 6) for start, _ in reversed(places)] == [data for _, data in reversed(places)]
    assert file.read(file.write([b"later"]).start, 5) == b"later"
    assert list(tmp_path.iterdir()) == []
    file.close()
    assert not file.close.alive


def test_a_disk_that_is_full_for_a_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    file = ScratchFile()
    monkeypatch.setattr(os, "pwrite", refuse)

    with pytest.raises(OSError, match=f"The folder for temporary files, {tempfile.gettempdir()}, cannot hold"):
        file.write([b"data"])


def test_machine_without_a_folder_for_temporary_files_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])

    with pytest.raises(OSError, match=r"temporary files cannot hold .*No usable temp.*/nowhere") as found:
        ScratchFile()
    assert "None" not in str(found.value)


@pytest.mark.long
@given(
    in_memory=st.sampled_from([0, 10, 150_000]),
    batches=st.lists(st.lists(st.text(st.characters(exclude_categories=()), max_size=3), max_size=30), max_size=20),
)
def test_set_says_what_is_new_as_a_set_does(in_memory: int, batches: list[list[str]]) -> None:
    seen, known = SeenSet(), set[str]()
    with patch.object(scratch, "_HASHES_IN_MEMORY", in_memory):
        for batch in batches:
            expected = []
            for text in batch:
                expected.append(text not in known)
                known.add(text)
            assert seen.add(batch) == expected
    assert len(seen) == len(known)


@pytest.mark.long
def test_many_texts_of_a_set_take_no_more_memory_than_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_HASHES_IN_MEMORY", 1_000)
    seen = SeenSet()
    tracemalloc.start()
    try:
        for at in range(0, 100_000, 50):
            seen.add([f"UC-{number}" for number in range(at, at + 50)])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 100,000 hashes in a set take 7 MB. SQLite's cache is bounded by itself.
    assert most < 400_000


def test_a_disk_that_is_full_for_a_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fill_the_disk(monkeypatch)
    monkeypatch.setattr(scratch, "_HASHES_IN_MEMORY", 1)
    seen = SeenSet()
    seen.add(["a"])

    with pytest.raises(OSError, match=f"temporary files, {tempfile.gettempdir()}, .*: database or disk is full"):
        seen.add(["c"])
