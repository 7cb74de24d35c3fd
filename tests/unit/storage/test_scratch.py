"""What does not fit into memory is on the disk under no name, so nobody else finds it."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.storage.scratch import ScratchFile, scratch_database

if TYPE_CHECKING:
    from pathlib import Path


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
    places = [(file.append(b"%06d" % number), b"%06d" % number) for number in range(10_000)]

    assert [file.read(start, 6) for start, _ in reversed(places)] == [data for _, data in reversed(places)]
    assert file.read(file.append(b"later"), 5) == b"later"
    assert list(tmp_path.iterdir()) == []
    file.close()
    assert not file.close.alive


def test_a_disk_that_is_full_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    file = ScratchFile()
    monkeypatch.setattr(os, "pwrite", refuse)

    with pytest.raises(OSError, match=r"The folder for temporary files, .* cannot hold what does not fit into memory"):
        file.append(b"data")


def test_machine_without_a_folder_for_temporary_files_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/nowhere"])

    with pytest.raises(OSError, match=r"temporary files cannot hold .*No usable temp.*/nowhere") as found:
        ScratchFile()
    assert "None" not in str(found.value)
