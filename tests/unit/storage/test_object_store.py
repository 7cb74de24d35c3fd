"""Commits on an object store: what they write there, and what is left of them when the network is lost."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError
from tests.unit.storage.attempts import LEASE, begin, die
from tests.unit.storage.places import Place, StoppedError, owner, rows, stopped

if TYPE_CHECKING:
    from tests.unit.storage.conftest import Store


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

    def test_a_commit_behind_one_that_the_local_disk_had_no_room_for_is_resumed(
        self, bucket: Place, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        block, staging = begin(bucket)
        with monkeypatch.context() as patch:
            patch.setattr("airflow_provider_mediaops.storage.object_store.write_at", refuse)
            with pytest.raises(OSError, match="No space left on device"):
                staging.commit(rows(90), 1)
        staging.commit(rows(0), 2)
        block.__exit__(StoppedError, StoppedError(), None)

        with bucket.dataset().staging(owner()) as staging:
            assert (staging.rows, staging.state) == (2, 2)
        assert bucket.lines() == rows(0)

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
