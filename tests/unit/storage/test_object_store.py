"""What only an object store does to a dataset: claims that go stale, attempts that are not dead, lost networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError
from airflow_provider_mediaops.storage.lease import STALE_AFTER
from tests.unit.storage.dying import DeathError, Life
from tests.unit.storage.places import Place, StoppedError, owner, rows, stopped, store_place

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from airflow_provider_mediaops.storage.dataset import Staging
    from tests.unit.storage.conftest import Store

CLAIM = "/bucket/top/.d.jsonl.checkpoint"


@pytest.fixture
def bucket(store: Store) -> Place:
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
                assert store.puts[0].startswith("/bucket/top/.d.jsonl.parts/0000000")

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
        for name in ("note.txt", "00000001-00000001", "00000002-00000001.a-after-0.1"):
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


class TestClaim:
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

    def test_of_two_that_begin_within_the_same_instant_one_wins(
        self, bucket: Place, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = store.pipe_file
        others: list[tuple[Any, Staging]] = []

        def meanwhile(path: str, value: bytes, **options: Any) -> None:
            if path == CLAIM and not others:
                # Both have seen that nobody has it; the other is the first to write its claim.
                others.append(None)  # type: ignore[arg-type]
                others[0] = begin(bucket, "first")
            real(path, value, **options)

        monkeypatch.setattr(store, "pipe_file", meanwhile)
        block, staging = begin(bucket, "second")
        other_block, other = others[0]

        with pytest.raises(DestinationInUseError, match="by second"):
            other.commit(rows(0), None)
        other_block.__exit__(DestinationInUseError, DestinationInUseError(""), None)
        staging.commit(rows(2), None)
        block.__exit__(None, None, None)
        assert bucket.lines() == rows(2)

    def test_a_claim_that_somebody_removed_is_lost(self, bucket: Place, store: Store) -> None:
        block, staging = begin(bucket)
        staging.commit(rows(0), None)
        store.rm_file(CLAIM)
        bucket.now += 60

        with pytest.raises(DestinationInUseError, match=rf"no longer this task's: the object \S*{CLAIM}, which"):
            staging.commit(rows(2), None)
        with pytest.raises(DestinationInUseError):
            block.__exit__(None, None, None)
        assert bucket.visible() == []

    @pytest.mark.parametrize("content", [b"", b"[]", b'{"version":7}', b'{"version":1}', b'{"version":1,"owner":1}'])
    def test_one_that_cannot_be_read_is_none(self, bucket: Place, store: Store, content: bytes) -> None:
        store.pipe_file(CLAIM, content)

        assert bucket.dataset().published(owner()) is None
        with bucket.dataset().staging(owner()) as staging:
            assert staging.resumed is False


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

    def test_a_part_that_is_lost_ends_what_counts(self, bucket: Place, store: Store) -> None:
        with stopped(), bucket.dataset().staging(owner()) as staging:
            for number in range(5):
                staging.commit(rows(2 * number), number)
            raise StoppedError
        store.rm_file(next(name for name in store.names if "/00000003-" in name))

        with bucket.dataset().staging(owner()) as staging:
            assert (staging.rows, staging.state) == (4, 1)
            staging.commit(rows(4), 2)
        assert bucket.lines() == rows(0, 6)

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
