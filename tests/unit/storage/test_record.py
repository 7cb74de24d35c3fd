"""A record that several tasks read and replace: of two that have read the same version, one at most replaces it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.exceptions import DestinationReplacedError, PermanentError
from airflow_provider_mediaops.storage.paths import path_of
from airflow_provider_mediaops.storage.record import FileRecord, Version
from tests.unit.storage.fake_store import FakeStore, attached, refused

NOTHING = Version()
STORED = "memory://shelf@bucket/top"
ONE, TWO = {"n": 1}, {"n": 2}


@pytest.fixture(params=["disk", "store"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the address of an empty folder of each kind that can keep records."""
    if request.param == "disk":
        yield str(tmp_path)
        return
    with attached(FakeStore(), "shelf"):
        yield STORED


def record_at(address: str) -> FileRecord:
    return FileRecord(path_of(f"{address}/record"))


@pytest.mark.parametrize("second", [TWO, None])
def test_written_value_is_read_by_others_and_replaced(address: str, second: Any) -> None:
    record = record_at(address)
    assert record.read() == NOTHING

    version = record.replace(ONE, NOTHING)
    assert record_at(address).read() == version == Version(ONE, 1)
    version = record.replace(second, version)
    assert version == record_at(address).read() == Version(second, 2)
    assert record.replace(TWO, version) == Version(TWO, 3)


@pytest.mark.parametrize("value", [TWO, None])
def test_version_that_another_has_replaced_is_a_conflict(address: str, value: Any) -> None:
    record = record_at(address)
    version = record.replace(ONE, NOTHING)
    newer = record_at(address).replace(value, version)

    for stale in (NOTHING, version):
        with pytest.raises(DestinationReplacedError):
            record.replace({"n": 3}, stale)
    assert record.read() == newer


def test_tenth_version_and_the_ten_thousandth_follow_in_order(address: str) -> None:
    record, version = record_at(address), NOTHING
    for number in range(11):
        version = record.replace({"n": number}, version)
    assert record.read() == Version({"n": 10}, 11)

    folder = path_of(f"{address}/record")
    folder.fs.pipe_file(f"{folder.path}/9999.json", b"{}")
    version = record.replace(TWO, record.read())
    assert record_at(address).read() == version == Version(TWO, 10_000)


def test_version_whose_folder_was_deleted_since_is_a_conflict(address: str) -> None:
    record = record_at(address)
    version = record.replace(TWO, record.replace(ONE, NOTHING))
    path_of(f"{address}/record").rmdir(recursive=True)

    with pytest.raises(DestinationReplacedError):
        record.replace({"n": 3}, version)
    assert record.read() == NOTHING
    assert record.replace(ONE, NOTHING) == Version(ONE, 1)


def test_version_that_somebody_has_damaged_is_read_and_replaced(tmp_path: Path) -> None:
    record = record_at(str(tmp_path))
    record.replace(ONE, NOTHING)
    (tmp_path / "record" / "0002.json").write_bytes(b"{\xff")

    found = record.read()
    assert found == Version("{\ufffd", 2)
    assert record.replace(TWO, found) == Version(TWO, 3)


def test_files_of_other_names_are_passed_over(tmp_path: Path) -> None:
    record = record_at(str(tmp_path))
    version = record.replace(ONE, NOTHING)
    for name in (".0002.json.0123456789abcdef.part", "0002.json.bak", "2.json", "00002.json", "notes.txt"):
        (tmp_path / "record" / name).write_bytes(b"half")

    assert record.read() == version


class TestAStoreThatDoesNotCheck:
    def test_client_without_conditions_is_refused_and_nothing_is_written(self, store: FakeStore) -> None:
        store.check_conditions(conditional=False)
        with pytest.raises(PermanentError, match=r"record cannot be kept: .* Choose a folder on S3"):
            record_at(STORED).replace(ONE, NOTHING)
        assert store.names == []

    def test_server_that_ignores_conditions_is_refused_also_after_the_record_was_withdrawn(
        self, store: FakeStore
    ) -> None:
        # The client sends them, and the server writes all the same.
        store.conditional = False
        record = record_at(STORED)
        with pytest.raises(PermanentError, match="does not refuse to create a file that is there"):
            record.replace(ONE, NOTHING)
        withdrawn = record.replace(None, record.read())
        with pytest.raises(PermanentError, match="does not refuse"):
            record.replace(TWO, withdrawn)

    def test_server_that_implements_no_condition_is_refused_and_nothing_is_written(self, store: FakeStore) -> None:
        store.refusal = refused("NotImplemented")
        with pytest.raises(PermanentError, match="does not refuse"):
            record_at(STORED).replace(ONE, NOTHING)
        assert store.names == []


@pytest.mark.parametrize("code", ["PreconditionFailed", "ConditionalRequestConflict", "ConditionNotMet", "412", "409"])
def test_refusals_of_stores_are_conflicts(store: FakeStore, code: str) -> None:
    store.refusal = refused(code)
    with pytest.raises(DestinationReplacedError, match=r"bucket/top/record was published by another run"):
        record_at(STORED).replace(ONE, NOTHING)


def test_store_that_refuses_the_key_is_no_conflict(store: FakeStore) -> None:
    store.refusal = refused("AccessDenied")
    with pytest.raises(PermissionError, match=r"record cannot be written: the store refuses .*\(AccessDenied\)"):
        record_at(STORED).replace(ONE, NOTHING)


class TestOnTheDisk:
    @pytest.mark.parametrize("trick", ["link", "dangling link", "folder"])
    def test_version_that_is_no_file_of_ours_is_neither_read_nor_replaced(self, tmp_path: Path, trick: str) -> None:
        record = record_at(str(tmp_path))
        outside, version = tmp_path / "outside", tmp_path / "record" / "0001.json"
        version.parent.mkdir(mode=0o700)
        if trick == "link":
            outside.write_bytes(b"precious")
        if "link" in trick:
            version.symlink_to(outside)
        else:
            version.mkdir()

        with pytest.raises(OSError, match="cannot be read"):
            record.read()
        with pytest.raises(DestinationReplacedError):
            record.replace(ONE, NOTHING)
        assert not outside.exists() or outside.read_bytes() == b"precious"

    def test_file_system_without_hard_links_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def link(source: Any, target: Any) -> None:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported", source, None, target)

        monkeypatch.setattr(os, "link", link)
        with pytest.raises(PermanentError, match=r"record cannot be kept: its file system has no hard links"):
            record_at(str(tmp_path)).replace(ONE, NOTHING)
        assert list(tmp_path.rglob("*.*")) == []

    def test_folder_is_readable_by_its_owner_only(self, tmp_path: Path) -> None:
        record_at(str(tmp_path)).replace(ONE, NOTHING)
        [version] = tmp_path.rglob("*.json")
        assert [path.stat().st_mode & 0o777 for path in (version.parent, version)] == [0o700, 0o600]

    def test_folder_that_is_a_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "journal").write_bytes(b"")
        with pytest.raises(OSError, match=r"journal cannot be written: File exists"):
            record_at(f"{tmp_path}/journal")

    def test_of_many_at_a_time_one_replaces_the_version(self, tmp_path: Path) -> None:
        record, count = record_at(str(tmp_path)), 8
        version = record.replace(ONE, NOTHING)
        barrier, winners = threading.Barrier(count), list[int]()

        def race(number: int) -> None:
            barrier.wait(240)
            with suppress(DestinationReplacedError):
                record_at(str(tmp_path)).replace({"by": number}, version)
                winners.append(number)

        with ThreadPoolExecutor(count) as pool:
            list(pool.map(race, range(count)))

        assert [{"by": number} for number in winners] == [record.read().value]
