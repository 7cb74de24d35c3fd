"""What only an object store does to a dataset: leases that go stale, attempts that are not dead, lost networks."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_mediaops.exceptions import DestinationInUseError, PermanentError
from airflow_provider_mediaops.storage.dataset import Dataset
from airflow_provider_mediaops.storage.formats import FlatView
from airflow_provider_mediaops.storage.lease import STALE_AFTER
from airflow_provider_mediaops.storage.object_store import ObjectStage
from airflow_provider_mediaops.storage.segments import Segment
from tests.unit.storage.dying import DeathError, Life
from tests.unit.storage.places import VIEW, Place, StoppedError, owner, rows, stopped, store_place

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from airflow_provider_mediaops.storage.dataset import Staging
    from tests.unit.storage.conftest import Store

LEASE = "/bucket/top/.d.jsonl.checkpoint"


@pytest.fixture(params=["conditional", "unconditional"])
def bucket(request: pytest.FixtureRequest, store: Store) -> Place:
    store.check_conditions(request.param == "conditional")
    return store_place(store)


def begin(place: Place, task: str = "dag/run/task/-1", name: str = "d.jsonl") -> tuple[Any, Staging]:
    """Begin an attempt that other attempts may come upon; give what ends it, and what it commits to."""
    block: AbstractContextManager[Staging] = place.dataset(name).staging(owner(task))
    return block, block.__enter__()


def die(patch: pytest.MonkeyPatch, store: Store, place: Place, *batches: list[dict[str, Any]]) -> None:
    """Commit batches, and die without a word to the store."""
    block, staging = begin(place)
    for batch in batches:
        staging.commit(batch, staging.rows)
    with patch.context() as dead:
        Life(dead, left=0).of(store)
        with pytest.raises(DeathError):
            block.__exit__(StoppedError, StoppedError(), None)


class TestWriting:
    def test_a_commit_is_one_put(self, bucket: Place, store: Store) -> None:
        with bucket.dataset().staging(owner()) as staging:
            for number in range(5):
                del store.puts[:]
                staging.commit(rows(number), {"n": number})
                assert len(store.puts) == 1
                assert store.puts[0].startswith("/bucket/top/.d.jsonl.parts/00000001-")

    def test_a_dataset_is_published_with_one_put(self, bucket: Place, store: Store) -> None:
        with bucket.dataset("d.csv").staging(owner()) as staging:
            staging.commit(rows(0), None)

        assert store.puts.count("/bucket/top/d.csv") == 1

    def test_hundreds_of_parts(self, bucket: Place, monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
        die(monkeypatch, store, bucket, *(rows(number, 1) for number in range(250)))
        with bucket.dataset().staging(owner()) as staging:
            assert (staging.rows, staging.state) == (250, 249)

        assert bucket.lines() == rows(0, 250)
        assert bucket.names() == [".d.jsonl.checkpoint", "d.jsonl"]

    def test_a_name_with_characters_of_patterns(
        self, bucket: Place, monkeypatch: pytest.MonkeyPatch, store: Store
    ) -> None:
        store.pipe_file("/bucket/top/.1.jsonl.parts/kept", b"")
        with stopped(), bucket.dataset("[1].jsonl").staging(owner()) as staging:
            staging.commit(rows(0), None)
            raise StoppedError
        with bucket.dataset("[1].jsonl").staging(owner()) as staging:
            assert staging.resumed

        assert bucket.names() == [".1.jsonl.parts/kept", ".[1].jsonl.checkpoint", "[1].jsonl"]

    def test_what_is_no_part_is_left_alone(self, bucket: Place, store: Store) -> None:
        for name in ("note.txt", "00000001-00000001", "00000001-a-alive-or-not"):
            store.pipe_file(f"/bucket/top/.d.jsonl.parts/{name}", b"?")
        with bucket.dataset().staging(owner()) as staging:
            staging.commit(rows(0), None)

        assert bucket.lines() == rows(0)
        assert len(bucket.names()) == 5

    def test_parts_that_cannot_be_removed_fail_nothing_and_are_removed_later(
        self, bucket: Place, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(_: Any) -> None:
            raise PermissionError("Access Denied")

        with monkeypatch.context() as patch:
            patch.setattr(store, "rm_file", refuse)
            with bucket.dataset().staging(owner()) as staging:
                staging.commit(rows(0), None)
        assert len(bucket.names()) == 3

        with bucket.dataset().staging(owner("next")) as staging:
            assert staging.rows == 0
        assert bucket.names() == [".d.jsonl.checkpoint", "d.jsonl"]


class TestLease:
    def test_that_of_a_dead_task_ends_after_a_while(
        self, bucket: Place, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        die(monkeypatch, store, bucket, rows(0))
        bucket.now += STALE_AFTER - 1
        message = r"by dag/run/task/-1, last heard of at .* free at 2027-01-15 0\d:\d\d:\d\d UTC"
        with pytest.raises(DestinationInUseError, match=message):
            begin(bucket, "other")
        bucket.now += 1

        block, staging = begin(bucket, "other")
        assert staging.resumed is False
        block.__exit__(None, None, None)
        assert bucket.names() == [".d.jsonl.checkpoint", "d.jsonl"]

    def test_each_commit_is_a_sign_of_life(self, bucket: Place) -> None:
        block, staging = begin(bucket)
        for _ in range(4):
            bucket.now += STALE_AFTER - 10
            staging.commit(rows(0), None)
        bucket.now += STALE_AFTER - 10
        with pytest.raises(DestinationInUseError):
            begin(bucket, "other")
        block.__exit__(None, None, None)

    def test_the_next_attempt_of_the_same_task_takes_over_at_once(
        self, bucket: Place, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        die(monkeypatch, store, bucket, rows(0))

        block, staging = begin(bucket)
        assert (staging.resumed, staging.rows) == (True, 2)
        block.__exit__(None, None, None)

    def test_with_other_parameters_it_starts_anew_at_once(
        self, bucket: Place, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        die(monkeypatch, store, bucket, rows(0))

        with bucket.dataset().staging(owner(parameters="others")) as staging:
            assert staging.resumed is False

    def test_a_task_that_was_thought_dead_learns_of_it_and_publishes_nothing(self, bucket: Place) -> None:
        block, staging = begin(bucket, "slow")
        staging.commit(rows(0), None)
        bucket.now += STALE_AFTER
        other, taken = begin(bucket, "other")
        taken.commit(rows(5), None)

        with pytest.raises(DestinationInUseError, match="by other"):
            staging.commit(rows(2), None)
        with pytest.raises(DestinationInUseError, match="by other"):
            block.__exit__(None, None, None)
        other.__exit__(None, None, None)

        assert bucket.lines() == rows(5)
        assert bucket.names() == [".d.jsonl.checkpoint", "d.jsonl"]

    def test_an_attempt_that_was_thought_dead_and_writes_on_is_not_counted(self, bucket: Place) -> None:
        _, first = begin(bucket)
        first.commit(rows(0), "first")
        block, second = begin(bucket)
        # Its last look at the claim was a moment ago, so it does not know yet.
        first.commit(rows(90), "first again")
        second.commit(rows(2), "second")
        first.commit(rows(92), "and again")
        block.__exit__(StoppedError, StoppedError(), None)

        third_block, third = begin(bucket)
        assert (list(third.records()), third.state) == (rows(0, 4), "second")
        third.commit(rows(4), "third")
        bucket.now += 31
        with pytest.raises(DestinationInUseError):
            first.commit(rows(94), None)
        third_block.__exit__(None, None, None)

        assert bucket.lines() == rows(0, 6)
        assert bucket.names() == [".d.jsonl.checkpoint", "d.jsonl"]

    def test_one_that_somebody_removed_is_lost(self, bucket: Place, store: Store) -> None:
        block, staging = begin(bucket)
        staging.commit(rows(0), None)
        store.rm_file(LEASE)
        bucket.now += 60

        with pytest.raises(DestinationInUseError, match=rf"no longer this task's: the object \S*{LEASE}, which"):
            staging.commit(rows(2), None)
        with pytest.raises(DestinationInUseError):
            block.__exit__(None, None, None)
        assert bucket.visible() == []

    @pytest.mark.parametrize("content", [b"", b"[]", b'{"version":1}', b'{"version":2,"owner":1}'])
    def test_one_that_cannot_be_understood_is_refused_and_left_alone(
        self, bucket: Place, store: Store, content: bytes
    ) -> None:
        store.pipe_file(LEASE, content)
        message = r"d\.jsonl may be in use: the object \S*checkpoint.* cannot be understood .*remove"

        with pytest.raises(DestinationInUseError, match=message):
            bucket.dataset().published(owner())
        with pytest.raises(DestinationInUseError, match=message):
            begin(bucket)
        assert store.cat_file(LEASE) == content
        assert bucket.names() == [".d.jsonl.checkpoint"]

    def test_one_of_an_unknown_version_is_refused_for_good_and_left_alone(self, bucket: Place, store: Store) -> None:
        store.pipe_file(LEASE, b'{"version":7}')
        message = rf"{LEASE} has version '7', which this version of airflow-provider-mediaops does not know.* delete"

        with pytest.raises(PermanentError, match=message):
            bucket.dataset().published(owner())
        with pytest.raises(PermanentError, match=message):
            begin(bucket)
        assert store.cat_file(LEASE) == b'{"version":7}'
        assert bucket.names() == [".d.jsonl.checkpoint"]

    def test_one_that_becomes_so_meanwhile_ends_the_attempt(self, bucket: Place, store: Store) -> None:
        block, staging = begin(bucket)
        store.pipe_file(LEASE, b'{"version":3}')

        with pytest.raises(PermanentError, match="has version '3'"):
            staging.commit(rows(0), None)
        block.__exit__(StoppedError, StoppedError(), None)
        assert store.cat_file(LEASE) == b'{"version":3}'


FIRST_VERSION = (
    b'{"version":1,"owner":{"task":"dag/run/task/-1","parameters":"p","clears":0,"run_start":""},'
    b'"since":1799999000.5,"released":false,"token":"0a1b2c3d","earlier":[],"last":null}'
)
FIRST_VERSION_PART = "/bucket/top/.d.jsonl.parts/00000001-00000001.0a1b2c3d-after-0.1799999900"


class TestFirstVersion:
    """What version 0.1 of the provider has left."""

    def leave(self, bucket: Place, store: Store, *, age: float) -> None:
        bucket.now -= age
        store.pipe_file(LEASE, FIRST_VERSION)
        store.pipe_file(FIRST_VERSION_PART, b'{"extent":{"size":9,"rows":1,"crc":5},"state":1}\n{"n":"x"}\n')
        bucket.now += age

    def test_a_lease_holds_while_its_task_lives(self, bucket: Place, store: Store) -> None:
        self.leave(bucket, store, age=STALE_AFTER - 1)

        with pytest.raises(DestinationInUseError, match="by dag/run/task/-1"):
            begin(bucket, "other")

    def test_a_dead_tasks_lease_ends_and_its_parts_are_removed(self, bucket: Place, store: Store) -> None:
        self.leave(bucket, store, age=STALE_AFTER)

        block, staging = begin(bucket, "other")
        assert FIRST_VERSION_PART not in store.names
        staging.commit(rows(0), None)
        block.__exit__(None, None, None)
        assert bucket.names() == [".d.jsonl.checkpoint", "d.jsonl"]

    def test_the_same_task_starts_anew(self, bucket: Place, store: Store) -> None:
        self.leave(bucket, store, age=0)

        with bucket.dataset().staging(owner()) as staging:
            assert (staging.resumed, staging.rows) == (False, 0)
            staging.commit(rows(0), None)
        assert bucket.names() == [".d.jsonl.checkpoint", "d.jsonl"]

    def test_a_receipt_counts(self, bucket: Place, store: Store) -> None:
        store.pipe_file("/bucket/top/d.jsonl", b"{}\n")
        identity = f"3:{store.info('/bucket/top/d.jsonl')['ETag']}"
        receipt = {
            "owner": {"task": "dag/run/task/-1", "parameters": "p", "clears": 0, "run_start": ""},
            "summary": {"rows": 1},
            "digest": None,
            "identity": identity,
        }
        fields: dict[str, Any] = {
            "version": 1,
            "owner": None,
            "since": 0.0,
            "released": False,
            "token": "",
            "earlier": [],
        }
        store.pipe_file(LEASE, json.dumps({**fields, "last": receipt}).encode())

        assert bucket.dataset().published(owner()) == {"rows": 1}
        assert bucket.dataset().published(owner(clears=1)) is None


class TestTime:
    """Whose clock says whether a lease is stale."""

    @pytest.mark.parametrize("skew", [-7200.0, 7200.0])
    def test_the_stores_clock_decides(self, bucket: Place, store: Store, skew: float) -> None:
        _block, staging = begin(bucket)
        staging.commit(rows(0), None)
        wrong = replace(bucket, now=bucket.now + skew)
        with pytest.raises(DestinationInUseError):
            begin(wrong, "other")
        assert not [name for name in bucket.names() if name.endswith("alive")]

        bucket.now += STALE_AFTER
        other, _ = begin(wrong, "other")
        other.__exit__(None, None, None)

    def test_without_one_the_clocks_of_the_machines_do(self, bucket: Place, store: Store) -> None:
        store.clock = None
        _block, staging = begin(bucket)
        for _ in range(3):
            bucket.now += STALE_AFTER - 10
            staging.commit(rows(0), None)
            with pytest.raises(DestinationInUseError, match="last heard of at 2027"):
                begin(bucket, "other")
        bucket.now += STALE_AFTER
        other, taken = begin(bucket, "other")
        assert taken.resumed is False
        other.__exit__(None, None, None)

    def test_a_sign_of_life_that_is_torn_counts_as_none(self, bucket: Place, store: Store) -> None:
        store.clock = None
        _block, staging = begin(bucket)
        bucket.now += STALE_AFTER
        staging.commit(rows(0), None)
        store.pipe_file(next(name for name in store.names if name.endswith("alive")), b"18")

        other, _ = begin(bucket, "other")
        other.__exit__(None, None, None)


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
        bucket.now += STALE_AFTER
        other, taken = begin(bucket, "other", "d.csv")
        assert taken.resumed is False
        with pytest.raises(DestinationInUseError, match="by other"):
            block.__exit__(None, None, None)
        other.__exit__(None, None, None)
        assert bucket.visible() == ["d.csv"]

    def upload_stage(self, bucket: Place, megabytes: int) -> ObjectStage:
        path = ObjectStoragePath(f"{bucket.prefix}/d.jsonl")
        stage = ObjectStage(path, owner(), lambda: bucket.now, block_size=1000)
        for _ in range(megabytes):
            stage.append(b"x" * (1024 * 1024 - 1) + b"\n", 1, None)
        return stage

    def test_an_upload_in_blocks_renews_the_lease(self, bucket: Place, store: Store) -> None:
        stage = self.upload_stage(bucket, 5)

        def block() -> None:
            bucket.now += STALE_AFTER - 10
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
                bucket.now += STALE_AFTER
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
                bucket.now += STALE_AFTER
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


class TestLiveSegments:
    def test_publishing_removes_nothing_of_an_attempt_that_began_since(self, bucket: Place, store: Store) -> None:
        """The receipt is written, the list is not yet read: another task begins and commits."""
        block, staging = begin(bucket)
        staging.commit(rows(0), None)
        newer: list[Any] = []
        real = store.ls

        def ls(path: str, *arguments: Any, **options: Any) -> list[Any]:
            if b'"last":{' in store.cat_file(LEASE) and not newer:
                newer.append(None)
                newer[0] = begin(bucket, "other")
                newer[0][1].commit(rows(5), None)
            return list(real(path, *arguments, **options))

        store.ls = ls  # type: ignore[method-assign]
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
        newer: list[Any] = []
        real = store.ls

        def ls(path: str, *arguments: Any, **options: Any) -> list[Any]:
            if not newer:
                newer.append(None)
                newer[0] = begin(bucket, "other")
                newer[0][1].commit(rows(5), None)
            return list(real(path, *arguments, **options))

        store.ls = ls  # type: ignore[method-assign]
        assert bucket.dataset().published(owner())
        newer[0][0].__exit__(None, None, None)
        assert bucket.lines() == rows(5)


class TestSegments:
    def segments(self, store: Store) -> dict[str, int]:
        folder = "/bucket/top/.d.jsonl.parts/"
        return {name: store.info(name)["size"] for name in store.names if name.startswith(folder)}

    def test_a_segment_grows_to_256_kb_and_few_are_left(self, bucket: Place, store: Store) -> None:
        row = [{"id": "x" * 1000, "n": 1}]
        block, staging = begin(bucket)
        sent: list[int] = []
        for number in range(2000):
            del store.puts[:]
            staging.commit(row, number)
            assert len(store.puts) == 1
            sent.append(store.info(store.puts[0])["size"])
        size = len(b"".join(staging.stage.lines()))
        complete = size // (256 * 1024)

        assert max(sent) < 260 * 1024
        assert sum(sent) < 2000 * 135 * 1024
        assert complete <= len(self.segments(store)) <= complete + 1 + 16
        block.__exit__(StoppedError, StoppedError(), None)
        with bucket.dataset().staging(owner()) as staging:
            assert (staging.rows, staging.state) == (2000, 1999)

    def test_nothing_is_read_from_the_store_for_it(self, bucket: Place, store: Store) -> None:
        block, staging = begin(bucket)
        read: list[str] = []
        real = store.cat_file

        def cat_file(path: str, *arguments: Any, **options: Any) -> bytes:
            read.append(path)
            return bytes(real(path, *arguments, **options))

        store.cat_file = cat_file
        for number in range(100):
            staging.commit(rows(number), None)
        assert set(read) == {LEASE}
        block.__exit__(StoppedError, StoppedError(), None)

    @pytest.mark.parametrize("cut", [0, 1, 40, -1])
    def test_a_torn_copy_loses_no_commit_before_it(self, bucket: Place, store: Store, cut: int) -> None:
        """A store that does not write in one step may leave half of the last copy."""
        with stopped(), bucket.dataset().staging(owner()) as staging:
            for number in range(3):
                staging.commit(rows(2 * number), number)
            raise StoppedError
        last = max(self.segments(store))
        store.pipe_file(last, store.cat_file(last)[:cut])

        with bucket.dataset().staging(owner()) as staging:
            assert (staging.rows, staging.state) == (4, 1)
            staging.commit(rows(4), 2)
        assert bucket.lines() == rows(0, 6)

    def test_superseded_copies_stay_if_the_lease_cannot_be_read(self, bucket: Place, store: Store) -> None:
        block, staging = begin(bucket)
        staging.commit(rows(0), 0)
        real = store.cat_file

        def refuse(*_: Any, **__: Any) -> bytes:
            raise ConnectionError("the network is gone")

        store.cat_file = refuse
        for number in range(1, 17):
            staging.commit(rows(2 * number), number)
        assert len(self.segments(store)) == 17
        store.cat_file = real
        block.__exit__(None, None, None)
        assert bucket.lines() == rows(0, 34)
        assert bucket.names() == [".d.jsonl.checkpoint", "d.jsonl"]

    def test_they_stay_if_the_lease_is_lost(self, bucket: Place, store: Store) -> None:
        _block, first = begin(bucket)
        for number in range(16):
            first.commit(rows(2 * number), number)
        other, second = begin(bucket)
        there = self.segments(store)
        with pytest.raises(DestinationInUseError):
            first.commit(rows(90), None)
        assert there.items() <= self.segments(store).items()
        assert list(second.records()) == rows(0, 32)
        other.__exit__(None, None, None)


class TestFailing:
    def test_a_store_that_refuses_is_found_out_before_the_block(self, bucket: Place, store: Store) -> None:
        store.refusal = PermissionError("Access Denied")

        with pytest.raises(PermissionError, match=r"top/d\.jsonl cannot be written: Access Denied"):
            begin(bucket)

    def test_a_store_that_is_lost_in_the_middle_keeps_what_is_committed(self, bucket: Place, store: Store) -> None:
        def write() -> None:
            with bucket.dataset().staging(owner()) as staging:
                staging.commit(rows(0), 1)
                store.refusal = ConnectionError("the network is gone")
                staging.commit(rows(2), 2)

        message = r"top/d\.jsonl cannot be written: the network is gone\. What is staged.* goes on after 2 rows"
        with pytest.raises(ConnectionError, match=message):
            write()
        store.refusal = None

        with bucket.dataset().staging(owner()) as staging:
            assert (staging.rows, staging.state) == (2, 1)
            staging.commit(rows(2), 2)
        assert bucket.lines() == rows(0, 4)

    def test_the_same_attempt_can_go_on_when_it_is_back(self, bucket: Place, store: Store) -> None:
        with bucket.dataset().staging(owner()) as staging:
            staging.commit(rows(0), 1)
            store.refusal = KeyError("an error of the client's own")
            with pytest.raises(OSError, match="KeyError"):
                staging.commit(rows(90, 9), 2)
            store.refusal = None
            staging.commit(rows(2), 2)

        assert bucket.lines() == rows(0, 4)

    @pytest.mark.parametrize("name", ["d.jsonl", "d.parquet"])
    def test_one_that_is_lost_at_the_end_keeps_everything(self, bucket: Place, store: Store, name: str) -> None:
        def write() -> None:
            with bucket.dataset(name).staging(owner()) as staging:
                staging.commit(rows(0), 1)
                store.refusal, store.refuses = OSError("the network is gone"), lambda path: path.endswith("/" + name)

        with pytest.raises(OSError, match=r"the network is gone.*goes on after 2 rows"):
            write()
        assert bucket.visible() == []
        store.refusal = None

        with bucket.dataset(name).staging(owner()) as staging:
            assert (staging.resumed, staging.rows) == (True, 2)
        assert bucket.visible() == [name]

    def test_a_store_that_cannot_be_read_when_an_attempt_goes_on(
        self, bucket: Place, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        die(monkeypatch, store, bucket, rows(0))

        def refuse(*_: Any, **__: Any) -> None:
            raise OSError("the network is gone")

        with monkeypatch.context() as patch:
            patch.setattr(store, "cat_ranges", refuse)
            with pytest.raises(OSError, match=r"top/d\.jsonl cannot be read: the network is gone"):
                begin(bucket)

        block, staging = begin(bucket)
        assert staging.rows == 2
        block.__exit__(None, None, None)
