"""Datasets on an object store that take long to publish, while other attempts begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_mediaops.exceptions import DestinationInUseError
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.formats import FlatView
from airflow_provider_mediaops.storage.held_lease import HeldLease
from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS
from airflow_provider_mediaops.storage.object_store import ObjectStage
from airflow_provider_mediaops.storage.segments import Segment
from tests.unit.storage.attempts import LEASE, begin
from tests.unit.storage.places import VIEW, Place, StoppedError, attempt, owner, rows, stopped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_provider_mediaops.storage.dataset import Staging
    from tests.unit.storage.conftest import Store


class TestLongPublish:
    """Converting or uploading takes longer than a lease holds."""

    def test_converting_renews_the_lease(self, bucket: Place, store: Store) -> None:
        """A view of columns that takes a minute for each thousand rows."""
        seen: list[str] = []

        def flatten(record: Mapping[str, Any]) -> Mapping[str, Any]:
            if record["n"] % 1000 == 999:
                bucket.now += 200
                with pytest.raises(DestinationInUseError):
                    begin(bucket, "other", "d.csv")
                seen.append(record["id"])
            return record

        view = FlatView(columns=VIEW.columns, flatten=flatten)
        dataset = Dataset(f"{bucket.prefix}/d.csv", view=view, clock=lambda: bucket.now)
        with dataset.staging(owner()) as staging:
            staging.commit(rows(0, 10_000), None)

        assert len(seen) == 10
        assert bucket.names() == [".d.csv.checkpoint", "d.csv"]

    def test_a_task_that_lost_its_lease_stops_converting(self, bucket: Place, store: Store) -> None:
        block, staging = begin(bucket, name="d.csv")
        staging.commit(rows(0, 5000), None)
        bucket.now += STALE_AFTER_SECONDS
        other, taken = begin(bucket, "other", "d.csv")
        assert taken.resumed is False
        with pytest.raises(DestinationInUseError, match="by other"):
            block.__exit__(None, None, None)
        other.__exit__(None, None, None)
        assert bucket.visible() == ["d.csv"]

    def upload_stage(self, bucket: Place, megabytes: int) -> ObjectStage:
        path = ObjectStoragePath(f"{bucket.prefix}/d.jsonl")
        stage = ObjectStage(path, owner(), lambda: bucket.now, block_bytes=1000)
        for _ in range(megabytes):
            stage.append(b"x" * (1024 * 1024 - 1) + b"\n", 1, None)
        return stage

    def test_an_upload_in_blocks_renews_the_lease(self, bucket: Place, store: Store) -> None:
        stage = self.upload_stage(bucket, 5)

        def block() -> None:
            bucket.now += STALE_AFTER_SECONDS - 10
            with pytest.raises(DestinationInUseError):
                begin(bucket, "other")

        store.on_block = block
        stage.publish(None, {}, None)
        stage.close()
        assert (store.blocks, store.discarded) == (5, 0)
        assert not store.transaction.files
        assert len(bucket.read("d.jsonl")) == 5 * 1024 * 1024
        assert bucket.names() == [".d.jsonl.checkpoint", "d.jsonl"]

    def test_an_upload_that_outlived_its_lease_is_given_up(self, bucket: Place, store: Store) -> None:
        stage = self.upload_stage(bucket, 5)
        newer: list[Any] = []

        def block() -> None:
            if store.blocks == 3:
                bucket.now += STALE_AFTER_SECONDS
                newer.append(begin(bucket, "other"))
                newer[0][1].commit(rows(5), None)

        store.on_block = block
        with pytest.raises(DestinationInUseError, match="by other"):
            stage.publish(None, {}, None)
        stage.close()
        assert (store.blocks, store.discarded) == (3, 1)
        assert bucket.visible() == []
        stage.close()

        newer[0][0].__exit__(None, None, None)
        assert bucket.lines() == rows(5)
        assert bucket.names() == [".d.jsonl.checkpoint", "d.jsonl"]

    @pytest.mark.parametrize("published", [True, False])
    def test_one_that_stands_still_in_the_last_request(self, bucket: Place, store: Store, *, published: bool) -> None:
        block, staging = begin(bucket)
        staging.commit(rows(0), None)
        other: list[Any] = []
        real = store._replace

        def replace_late(path: str, value: bytes, **options: Any) -> None:
            if path.endswith("d.jsonl") and not other:
                bucket.now += STALE_AFTER_SECONDS
                other.append(begin(bucket, "other"))
                other[0][1].commit(rows(7, 9), None)
                if published:
                    other[0][0].__exit__(None, None, None)
            real(path, value, **options)

        store._replace = replace_late  # type: ignore[method-assign]
        late = published and not store.conditional
        message = "published by other .* replaced it: .* Run other again" if late else "by other|no longer this task's"
        with pytest.raises(DestinationInUseError, match=message):
            block.__exit__(None, None, None)
        if published:
            # Without conditions the old file is there, but nobody takes it for the newer one.
            assert bucket.lines() == (rows(0) if late else rows(7, 9))
            assert bool(bucket.dataset().published(owner("other"))) is not late
        else:
            other[0][0].__exit__(None, None, None)
            assert bucket.lines() == rows(7, 9)
        assert bucket.dataset().published(owner()) is None
        assert bucket.names() == [".d.jsonl.checkpoint", "d.jsonl"]

    def test_a_third_attempt_does_not_hide_that_a_newer_file_was_replaced(self, bucket: Place, store: Store) -> None:
        block, staging = begin(bucket)
        staging.commit(rows(0), None)
        real, begun = store._replace, iter([True])

        def replace_late(path: str, value: bytes, **options: Any) -> None:
            if not (path.endswith("d.jsonl") and next(begun, False)):
                real(path, value, **options)
                return
            bucket.now += STALE_AFTER_SECONDS
            attempt(bucket.dataset(), owner("other"), rows(7))
            try:
                real(path, value, **options)
            finally:
                attempt(bucket.dataset(), owner("third"), rows(9), stop=True)

        store._replace = replace_late  # type: ignore[method-assign]
        message = "by third" if store.conditional else "published by other .* replaced it: .* Run other again"
        with pytest.raises(DestinationInUseError, match=message):
            block.__exit__(None, None, None)

    @pytest.mark.parametrize("following", ["dag/run/task/-1", "third"])
    def test_a_receipt_of_before_is_not_taken_for_that_of_a_newer_file(
        self, bucket: Place, store: Store, following: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        attempt(bucket.dataset(), owner("other"), rows(0))
        bucket.write("d.jsonl", b"of another program")
        verify = HeldLease.verify_after_upload

        def verify_late(lease: HeldLease) -> None:
            monkeypatch.setattr(HeldLease, "verify_after_upload", verify)
            bucket.now += STALE_AFTER_SECONDS
            attempt(bucket.dataset(), owner(following), rows(9), stop=True)
            verify(lease)

        monkeypatch.setattr(HeldLease, "verify_after_upload", verify_late)
        with pytest.raises(DestinationInUseError, match=f"by {following}"):
            attempt(bucket.dataset(), owner(), rows(1))

    def test_a_file_that_another_program_replaces_meanwhile_is_replaced(self, bucket: Place, store: Store) -> None:
        with bucket.dataset().staging(owner()) as staging:
            staging.commit(rows(0), None)
            once = iter([b"of another program"])
            real = store._replace

            def race(path: str, value: bytes, **options: Any) -> None:
                if path.endswith("d.jsonl"):
                    for content in once:
                        real(path, content)
                real(path, value, **options)

            store._replace = race  # type: ignore[method-assign]
        assert bucket.lines() == rows(0)
        assert bucket.dataset().published(owner())

    def test_one_that_is_replaced_again_and_again_is_given_up(self, bucket: Place, store: Store) -> None:
        block, staging = begin(bucket)
        staging.commit(rows(0), None)
        real = store._replace

        def race(path: str, value: bytes, **options: Any) -> None:
            real(path, value, **options)
            if path.endswith("d.jsonl"):
                real(path, b"of another program")

        store._replace = race  # type: ignore[method-assign]
        with pytest.raises(OSError, match=r"another program keeps replacing it.*goes on after 2 rows"):
            block.__exit__(None, None, None)


def begin_another_at_a_listing(place: Place, store: Store, when: Callable[[], bool]) -> list[tuple[Any, Staging]]:
    """Have another task begin and commit right before a list of objects is read; return it once it has begun."""
    begun: list[tuple[Any, Staging]] = []
    real, busy = store.ls, [False]

    def ls(path: str, *arguments: Any, **options: Any) -> list[Any]:
        if not busy[0] and when():
            busy[0] = True
            begun.append(begin(place, "other"))
            begun[0][1].commit(rows(5), None)
        return list(real(path, *arguments, **options))

    store.ls = ls  # type: ignore[method-assign]
    return begun


class TestLiveSegments:
    def test_publishing_removes_nothing_of_an_attempt_that_began_since(self, bucket: Place, store: Store) -> None:
        """The receipt is written, the list is not yet read: another task begins and commits."""
        block, staging = begin(bucket)
        staging.commit(rows(0), None)
        newer = begin_another_at_a_listing(bucket, store, lambda: b'"last_receipt":{' in store.cat_file(LEASE))
        block.__exit__(None, None, None)
        assert any(Segment.of(name.rpartition("/")[2]) for name in store.names)
        newer[0][0].__exit__(StoppedError, StoppedError(), None)

        resumed, staging = begin(bucket, "other")
        assert list(staging.records()) == rows(5)
        resumed.__exit__(None, None, None)
        assert bucket.lines() == rows(5)

    def test_looking_for_a_receipt_removes_nothing_of_one_that_began_since(self, bucket: Place, store: Store) -> None:
        with bucket.dataset().staging(owner()) as staging:
            staging.commit(rows(0), None)
        newer = begin_another_at_a_listing(bucket, store, lambda: True)
        assert bucket.dataset().published(owner())
        newer[0][0].__exit__(None, None, None)
        assert bucket.lines() == rows(5)


@pytest.mark.parametrize("further", [0, 1])
def test_a_cleared_task_resumes_nothing_that_was_staged_after_a_publication(
    bucket: Place, monkeypatch: pytest.MonkeyPatch, further: int
) -> None:
    """An attempt that was thought dead replaces what its task has published, and dies before its receipt."""
    attempt(bucket.dataset(), owner(), rows(0))

    def die(*_: object) -> None:
        raise StoppedError

    with monkeypatch.context() as patch, stopped():
        patch.setattr(HeldLease, "settle", die)
        attempt(bucket.dataset(), owner(), rows(1))
    assert bucket.lines() == rows(1)
    for number in range(further):
        attempt(bucket.dataset(), owner(), rows(2 + number), stop=True)

    assert attempt(bucket.dataset(), owner(clears=1), rows(5)).resumed is False
    assert bucket.lines() == rows(5)
