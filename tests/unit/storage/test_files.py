from __future__ import annotations

import os
import stat
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError

import pytest
from airflow.sdk import ObjectStoragePath
from airflow.sdk.io.store import _STORE_CACHE, ObjectStore

from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.storage.files import beside, write_whole
from airflow_provider_mediaops.storage.paths import path_of
from tests.unit.storage.fake_store import FakeStore

BUCKET = "memory://shelf@bucket"


def local(path: Path) -> ObjectStoragePath:
    return ObjectStoragePath(path.as_uri())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_file_is_written_with_the_folders_above_it_and_replaced(tmp_path: Path) -> None:
    for path in (local(tmp_path / "a" / "b" / "c.txt"), ObjectStoragePath(str(tmp_path / "a" / "b" / "c.txt"))):
        for content in (b"a long first content", b"second"):
            write_whole(path, content)
            assert (tmp_path / "a" / "b" / "c.txt").read_bytes() == content

    assert names_in(tmp_path / "a" / "b") == ["c.txt"]


@pytest.mark.parametrize("name", ["c.txt", "./c.txt", "../here/c.txt", "~/c.txt"])
def test_a_relative_path_begins_at_the_working_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here))

    write_whole(path_of(name), b"content")

    assert (here / "c.txt").read_bytes() == b"content"


def test_a_file_is_readable_to_those_whom_the_umask_allows(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        write_whole(local(tmp_path / "c.txt"), b"")
    finally:
        os.umask(previous)

    assert stat.S_IMODE((tmp_path / "c.txt").stat().st_mode) == 0o640


def test_nobody_else_reads_a_private_file_while_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.txt").touch(0o600)
    modes: list[int] = []
    real = os.pwrite

    def write(descriptor: int, data: bytes, offset: int) -> int:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", write)
    write_whole(local(tmp_path / "c.txt"), b"content")

    assert modes == [0o600]
    assert stat.S_IMODE((tmp_path / "c.txt").stat().st_mode) == 0o600


def test_a_failure_leaves_the_older_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.txt").write_bytes(b"older")
    monkeypatch.setattr(os, "fsync", lambda _: os.write(-1, b""))

    with pytest.raises(OSError, match=r"c\.txt cannot be written: Bad file descriptor"):
        write_whole(local(tmp_path / "c.txt"), b"newer")

    assert (tmp_path / "c.txt").read_bytes() == b"older"
    assert names_in(tmp_path) == ["c.txt"]


@pytest.mark.parametrize("through_link", [False, True])
def test_a_destination_that_is_a_named_pipe_is_refused_and_stays(tmp_path: Path, *, through_link: bool) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    path = link if through_link else pipe

    with pytest.raises(
        FileExistsError, match=f"{path} cannot be written: it is a pipe or a device, which the file would"
    ):
        write_whole(local(path), b"")

    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()
    assert names_in(tmp_path) == ["link", "pipe"]


# Airflow 3.1 knows no home folders in paths, and looks for the scheme only when the file is opened.
SINCE_3_2 = pytest.mark.airflow(">=3.2")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param("~nosuchuser/c.txt", "no such home folder", marks=SINCE_3_2),
        pytest.param("file://~nosuchuser/c.txt", "no such home folder", marks=SINCE_3_2),
        ("file:///a\0b/c.txt", "NUL byte"),
        pytest.param("nosuchproto://x/c.txt", "Use file://, s3:// or", marks=SINCE_3_2),
        # Its package is missing.
        pytest.param("gdrive://folder/c.txt", "gdrive_fs", marks=SINCE_3_2),
    ],
)
def test_a_path_that_can_never_name_a_file_is_refused_with_its_name(path: str, message: str) -> None:
    refusal = f"c.txt' is not the path of a file: .*{message}"
    with pytest.raises(InvalidArgumentError, match=refusal):
        path_of(path)
    if path.startswith(("~", "file:")):
        with pytest.raises(InvalidArgumentError, match=refusal):
            write_whole(ObjectStoragePath(path), b"")


@pytest.mark.parametrize(
    ("refusal", "kind", "message"),
    [
        (PermissionError("Access Denied"), PermissionError, "Access Denied"),
        (OSError(28, "No space left"), OSError, "No space left"),
        (HTTPError("https://store", 503, "", Message(), None), OSError, "HTTP Error 503"),
        # Some clients have errors of their own for a lost network.
        (KeyError("no endpoint"), OSError, "KeyError: 'no endpoint'"),
    ],
)
def test_a_store_that_refuses_is_named_and_the_older_object_stays(
    store: FakeStore, refusal: Exception, kind: type[Exception], message: str
) -> None:
    store.pipe_file("/bucket/c.txt", b"older")
    store.refusal = refusal

    with pytest.raises(kind, match=rf"bucket/c\.txt cannot be written: {message}"):
        write_whole(ObjectStoragePath(f"{BUCKET}/c.txt"), b"newer")

    assert store.cat_file("/bucket/c.txt") == b"older"


def test_a_store_with_folders_is_given_them(store: FakeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    # As SFTP: a file in a folder that does not exist is an error.
    pipe = store.pipe_file

    def pipe_into_folders(path: str, value: bytes) -> None:
        if not store.isdir(path.rpartition("/")[0]):
            raise FileNotFoundError(path)
        pipe(path, value)

    monkeypatch.setattr(store, "pipe_file", pipe_into_folders)

    write_whole(ObjectStoragePath(f"{BUCKET}/a/b/c.txt"), b"content")

    assert store.cat_file("/bucket/a/b/c.txt") == b"content"


@pytest.mark.parametrize("scheme", ["s3", "gs", "abfs"])
def test_a_bucket_that_does_not_exist_is_not_created(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """Its name may be misspelt, and then records would go where nobody protects them."""
    client, created = FakeStore(), list[str]()

    def refuse(path: str, _: bytes) -> None:
        raise FileNotFoundError(f"The specified bucket does not exist: {path}")

    monkeypatch.setattr(client, "pipe_file", refuse)
    monkeypatch.setattr(client, "makedirs", lambda path, **_: created.append(path))
    monkeypatch.setitem(_STORE_CACHE, f"{scheme}-mine", ObjectStore(scheme, "mine", client))
    with pytest.raises(FileNotFoundError, match=rf"{scheme}://mine@bukcet/d\.txt cannot be written: .*no such bucket"):
        write_whole(path_of(f"{scheme}://mine@bukcet/d.txt"), b"text")
    assert created == []


def test_hidden_names_of_two_files_are_never_the_same() -> None:
    names = ["a", "a.b", "n" * 240, "n" * 241, "n" * 255, "ü" * 120, "ü" * 121]
    hidden = {beside(name, kind) for name in names for kind in ("staging", "mapped")}

    assert len(hidden) == 2 * len(names)
    assert all(name.startswith(".") and len(name.encode()) <= 255 for name in hidden)
