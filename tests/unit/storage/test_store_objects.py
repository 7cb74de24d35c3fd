"""Requests to a store: conditions as the clients know them, and objects that are read together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import ObjectStoragePath
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_mediaops.storage.store_objects import ConflictError, Found, StoreObjects
from tests.unit.storage.attached import attached
from tests.unit.storage.fake_store import refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.storage.conftest import Store

NAME = "/bucket/x"


@pytest.fixture
def objects(store: Store) -> StoreObjects:
    assert store.names == []
    return StoreObjects(ObjectStoragePath("memory://shelf@bucket/d.jsonl"), 1000)


class TestConditions:
    def test_only_the_version_that_was_read_is_replaced(self, objects: StoreObjects, store: Store) -> None:
        objects.write(NAME, b"1", "")
        first = objects.read(NAME)
        objects.write(NAME, b"2", first.condition)

        with pytest.raises(ConflictError):
            objects.write(NAME, b"3", first.condition)
        with pytest.raises(ConflictError):
            objects.write(NAME, b"3", "")
        assert objects.read(NAME).content == b"2"
        objects.write(NAME, b"4")
        store.rm_file(NAME)
        with pytest.raises(ConflictError):
            objects.write(NAME, b"5", first.condition)
        assert objects.read(NAME) == Found()

    @pytest.mark.parametrize("code", ["PreconditionFailed", "ConditionalRequestConflict", "412", "409"])
    def test_the_refusals_of_s3(self, objects: StoreObjects, store: Store, code: str) -> None:
        store.refusal = refused(code)

        with pytest.raises(ConflictError):
            objects.write(NAME, b"1", '"7"')
        with pytest.raises(OSError, match=code):
            objects.write(NAME, b"1")

    def test_other_errors_are_none(self, objects: StoreObjects, store: Store) -> None:
        store.refusal = refused("AccessDenied")

        with pytest.raises(OSError, match=r"d\.jsonl cannot be written: .* no right .*\(AccessDenied\).* Try this"):
            objects.write(NAME, b"1", "", hint="Try this.")

    def test_a_server_that_implements_none_is_asked_once(self, objects: StoreObjects, store: Store) -> None:
        asked: list[dict[str, Any]] = []
        real = store._replace

        def replace(path: str, value: bytes, **options: Any) -> None:
            asked.append(options)
            if options:
                raise refused("NotImplemented")
            real(path, value)

        store._replace = replace  # type: ignore[method-assign]
        objects.write(NAME, b"1", "")
        objects.write(NAME, b"2", "")
        assert asked == [{"IfNoneMatch": "*"}, {}, {}]

    def test_of_most_clients_only_creation(self) -> None:
        """They take fsspec's `mode="create"`, as those of Google and Microsoft do."""
        fs = MemoryFileSystem(skip_instance_cache=True)
        fs.store = {}
        with attached(fs, "plain"):
            objects = StoreObjects(ObjectStoragePath("memory://plain@bucket/d.jsonl"), 1000)
            objects.write(NAME, b"1", "")
            with pytest.raises(ConflictError):
                objects.write(NAME, b"2", "")
            objects.write(NAME, b"3", "any version")
            assert objects.read(NAME).content == b"3"


class TestStaged:
    def names(self, store: Store, count: int, size: int = 1) -> list[str]:
        names = [f"n{number}" for number in range(count)]
        for name in names:
            store.pipe_file(f"/bucket/.d.jsonl.parts/{name}", b"x" * size)
        return names

    def test_they_are_read_a_hundred_at_a_time(
        self, objects: StoreObjects, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        turns: list[int] = []
        real = store.cat_ranges

        def cat_ranges(paths: list[str], *arguments: Any, **options: Any) -> list[Any]:
            turns.append(len(paths))
            return list(real(paths, *arguments, **options))

        monkeypatch.setattr(store, "cat_ranges", cat_ranges)
        names = self.names(store, 250)
        assert list(objects.fetch(names, dict.fromkeys(names, 1))) == [b"x"] * 250
        assert turns == [100, 100, 50]
        del turns[:]
        assert len(list(objects.fetch(names, dict.fromkeys(names, 5 * 1024 * 1024)))) == 250
        assert set(turns) == {4, 2}

    def test_one_that_is_gone_is_none(self, objects: StoreObjects, store: Store) -> None:
        names = [*self.names(store, 1), "gone", "n0"]

        assert list(objects.fetch(names, dict.fromkeys(names, 1))) == [b"x", None, b"x"]

    def test_a_store_that_cannot_be_read(self, objects: StoreObjects, store: Store) -> None:
        def refuse(*_: Any, **__: Any) -> Iterator[bytes]:
            raise KeyError("an error of the client's own")

        store.cat_file = refuse
        with pytest.raises(OSError, match=r"d\.jsonl cannot be read: KeyError: "):
            list(objects.fetch(["n0"], {"n0": 1}))

    def test_more_than_a_hundred_are_removed(self, objects: StoreObjects, store: Store) -> None:
        names = self.names(store, 250)
        objects.remove(names[:240])

        assert sorted(objects.staged()) == names[240:]


class TestUpload:
    def upload(self, objects: StoreObjects, tmp_path: Any, size: int, replaces: str | None, *checks: Exception) -> None:
        left = list(checks)

        def check(*, fresh: bool) -> None:
            if left and fresh:
                raise left.pop()

        (tmp_path / "file").write_bytes(b"y" * size)
        with (tmp_path / "file").open("rb") as file:
            objects.upload(objects.path.path, file.fileno(), replaces, check)

    @pytest.mark.parametrize("size", [0, 1000, 1001, 3 * 1024 * 1024])
    def test_it_appears_whole(self, objects: StoreObjects, store: Store, tmp_path: Any, size: int) -> None:
        self.upload(objects, tmp_path, size, "")

        assert store.cat_file("/bucket/d.jsonl") == b"y" * size
        assert store.puts == ["/bucket/d.jsonl"]

    @pytest.mark.parametrize("size", [1000, 1001])
    def test_it_replaces_the_expected_version_only(
        self, objects: StoreObjects, store: Store, tmp_path: Any, size: int
    ) -> None:
        self.upload(objects, tmp_path, size, "")
        store.pipe_file("/bucket/d.jsonl", b"newer")

        for version in ("", '"0"'):
            with pytest.raises(ConflictError):
                self.upload(objects, tmp_path, size, version)
        assert store.cat_file("/bucket/d.jsonl") == b"newer"
        self.upload(objects, tmp_path, size, store.info("/bucket/d.jsonl")["ETag"])
        assert store.info("/bucket/d.jsonl")["size"] == size

    def test_one_that_fails_leaves_nothing(self, objects: StoreObjects, store: Store, tmp_path: Any) -> None:
        with pytest.raises(OSError, match="stopped"):
            self.upload(objects, tmp_path, 1001, "", KeyError("stopped"))

        assert (store.names, store.discarded) == ([], 1)
        assert not store.transaction.files
