from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_mediaops.storage.files import staged, write_whole

if TYPE_CHECKING:
    from tests.unit.storage.conftest import Store

BUCKET = "memory://shelf@bucket"


def local(path: Path) -> ObjectStoragePath:
    return ObjectStoragePath(path.as_uri())


def fail_halfway(path: ObjectStoragePath) -> None:
    """Fail with the name of the staged file, half of which is written."""
    with staged(path) as file:
        file.write_bytes(b"half")
        raise KeyError(str(file))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_with_the_folders_above_it(tmp_path: Path) -> None:
    write_whole(local(tmp_path / "a" / "b" / "c.txt"), b"content")

    assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == b"content"
    assert names_in(tmp_path / "a" / "b") == ["c.txt"]


def test_an_older_file_is_replaced(tmp_path: Path) -> None:
    for content in (b"a long first content", b"second"):
        write_whole(local(tmp_path / "c.txt"), content)

    assert (tmp_path / "c.txt").read_bytes() == b"second"


def test_a_path_without_a_scheme_is_a_local_file(tmp_path: Path) -> None:
    write_whole(ObjectStoragePath(str(tmp_path / "c.txt")), b"content")

    assert (tmp_path / "c.txt").read_bytes() == b"content"


def test_a_file_is_readable_to_those_whom_the_umask_allows(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        write_whole(local(tmp_path / "c.txt"), b"")
    finally:
        os.umask(previous)

    assert stat.S_IMODE((tmp_path / "c.txt").stat().st_mode) == 0o640


def test_a_name_as_long_as_the_file_system_allows_is_written(tmp_path: Path) -> None:
    write_whole(local(tmp_path / ("n" * 255)), b"content")

    assert names_in(tmp_path) == ["n" * 255]


def test_a_link_stays_and_leads_to_the_new_content(tmp_path: Path) -> None:
    real = tmp_path / "data" / "real.txt"
    real.parent.mkdir()
    link = tmp_path / "link.txt"
    link.symlink_to(real)

    write_whole(local(link), b"content")

    assert link.is_symlink()
    assert real.read_bytes() == b"content"


def test_what_is_being_written_is_not_seen_under_its_name(tmp_path: Path) -> None:
    with staged(local(tmp_path / "c.txt")) as file:
        file.write_bytes(b"half")
        assert not (tmp_path / "c.txt").exists()
        assert file.parent == tmp_path

    assert names_in(tmp_path) == ["c.txt"]


def test_after_a_failure_the_older_file_stays_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_bytes(b"older")

    with pytest.raises(KeyError):
        fail_halfway(local(tmp_path / "c.txt"))

    assert (tmp_path / "c.txt").read_bytes() == b"older"
    assert names_in(tmp_path) == ["c.txt"]


def test_a_destination_that_is_a_folder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=f"{tmp_path}.* cannot be written: it is a folder"):
        staged(local(tmp_path)).__enter__()

    assert names_in(tmp_path) == []


def test_a_destination_below_a_file_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(OSError, match=r"file/c\.txt cannot be written"):
        write_whole(local(tmp_path / "file" / "c.txt"), b"")


def test_an_object_is_written_with_one_put(store: Store) -> None:
    write_whole(ObjectStoragePath(f"{BUCKET}/a/c.txt"), b"content")

    assert store.cat_file("/bucket/a/c.txt") == b"content"
    assert store.puts == ["/bucket/a/c.txt"]


def test_a_staged_object_is_published_when_the_block_ends(store: Store) -> None:
    with staged(ObjectStoragePath(f"{BUCKET}/a/c.txt")) as file:
        file.write_bytes(b"content")
        assert store.names == []

    assert store.cat_file("/bucket/a/c.txt") == b"content"
    assert store.names == ["/bucket/a/c.txt"]
    assert not file.exists()


def test_after_a_failure_the_older_object_stays(store: Store) -> None:
    store.pipe_file("/bucket/c.txt", b"older")

    with pytest.raises(KeyError) as caught:
        fail_halfway(ObjectStoragePath(f"{BUCKET}/c.txt"))

    assert store.cat_file("/bucket/c.txt") == b"older"
    assert store.names == ["/bucket/c.txt"]
    assert not Path(caught.value.args[0]).exists()


def test_a_store_that_refuses_is_found_out_before_the_block_begins(store: Store) -> None:
    store.refusal = PermissionError("Access Denied")

    with pytest.raises(PermissionError, match=r"bucket/c\.txt cannot be written: Access Denied"):
        staged(ObjectStoragePath(f"{BUCKET}/c.txt")).__enter__()


def test_a_store_that_refuses_at_the_end_leaves_no_local_file(store: Store) -> None:
    with (
        pytest.raises(OSError, match=r"bucket/c\.txt cannot be written: the network is gone"),
        staged(ObjectStoragePath(f"{BUCKET}/c.txt")) as file,
    ):
        store.refusal = OSError("the network is gone")

    assert not file.exists()


def test_a_store_with_folders_is_given_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    # As SFTP: a file in a folder that does not exist is an error.
    pipe = store.pipe_file

    def pipe_into_folders(path: str, value: bytes) -> None:
        if not store.isdir(path.rpartition("/")[0]):
            raise FileNotFoundError(path)
        pipe(path, value)

    monkeypatch.setattr(store, "pipe_file", pipe_into_folders)

    write_whole(ObjectStoragePath(f"{BUCKET}/a/b/c.txt"), b"content")

    assert store.cat_file("/bucket/a/b/c.txt") == b"content"
