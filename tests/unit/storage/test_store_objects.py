"""Requests to a store: conditions as the clients know them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import ObjectStoragePath
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_mediaops.storage.errors import ConflictError
from airflow_provider_mediaops.storage.store_objects import Found, StoreObjects
from tests.unit.storage.attached import attached
from tests.unit.storage.fake_store import refused

if TYPE_CHECKING:
    from tests.unit.storage.conftest import Store

NAME = "/bucket/x"


@pytest.fixture
def objects(store: Store) -> StoreObjects:
    assert store.names == []
    return StoreObjects(ObjectStoragePath("memory://shelf@bucket/d.jsonl"))


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

        with pytest.raises(OSError, match=r"d\.jsonl cannot be written: .* no right .*\(AccessDenied\)"):
            objects.write(NAME, b"1", "")

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
            objects = StoreObjects(ObjectStoragePath("memory://plain@bucket/d.jsonl"))
            objects.write(NAME, b"1", "")
            with pytest.raises(ConflictError):
                objects.write(NAME, b"2", "")
            objects.write(NAME, b"3", "any version")
            assert objects.read(NAME).content == b"3"
