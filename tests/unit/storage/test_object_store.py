"""What only an object store does to a dataset: commits that are held back, large files, and clients with own words."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import DestinationReplacedError
from airflow_provider_mediaops.storage import log, object_store
from airflow_provider_mediaops.storage.object_store import StoreBackend
from airflow_provider_mediaops.storage.scratch import ScratchFile
from tests.unit.storage.dying import DeathError
from tests.unit.storage.places import Place, StoppedError, attempt, owner, rows, stopped, store_place

if TYPE_CHECKING:
    from tests.unit.storage.fake_store import FakeStore


def segments(place: Place) -> list[str]:
    return [name for name in place.staged() if name.count("-") > 1]


class TestCommits:
    def test_they_are_held_back_and_an_error_loses_none(self, bucket: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [100.0]
        monkeypatch.setattr(log, "time", SimpleNamespace(monotonic=lambda: now[0]))
        with stopped(), bucket.dataset().staging(owner()) as staging:
            for number in range(51):
                staging.commit(rows(number, 1), number)
                now[0] += 0.25
            assert len(segments(bucket)) == 2  # of five seconds each
            monkeypatch.setattr(StoreBackend, "hold_bytes", 500)
            for number in range(51, 100):
                staging.commit(rows(number, 1), number)
            assert 2 < len(segments(bucket)) < 8  # of 500 bytes each
            assert staging.rows == 100
            raise StoppedError

        assert attempt(bucket.dataset(), owner()).summary["rows"] == 100
        assert bucket.lines() == rows(0, 100)

    def test_a_death_loses_those_that_are_held_back_and_no_other(self, bucket: Place, store: FakeStore) -> None:
        def die(_name: str, _path: str) -> None:
            raise DeathError

        with pytest.raises(DeathError), bucket.dataset().staging(owner()) as staging:  # noqa: PT012
            staging.commit(rows(0), 1)
            staging.flush()
            staging.commit(rows(2), 2)
            store.on_request = die
            raise StoppedError
        store.on_request = lambda _name, _path: False

        assert attempt(bucket.dataset(), owner(), rows(9)).resumed
        assert bucket.lines() == [*rows(0), *rows(9)]

    def test_a_commit_that_fails_names_the_destination_and_leaves_the_one_before(
        self, bucket: Place, store: FakeStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse_once(*_: Any, **__: Any) -> None:
            monkeypatch.setattr(store, "ls", real)
            raise ConnectionError("the network is gone for a moment")

        real = store.ls
        with (  # noqa: PT012
            pytest.raises(OSError, match=r"d\.jsonl cannot be read: .* gone for a moment\. .*goes on after 2 rows"),
            bucket.dataset().staging(owner()) as staging,
        ):
            staging.commit(rows(0), 1)
            staging.flush()
            staging.commit(rows(2), 2)
            monkeypatch.setattr(StoreBackend, "hold_bytes", 1)
            monkeypatch.setattr(store, "ls", refuse_once)
            staging.commit(rows(4), 3)

        retry = attempt(bucket.dataset(), owner(), stop=True)
        assert (retry.rows, retry.state) == (4, 2)

    def test_a_state_that_is_changed_after_its_commit_is_saved_as_it_was(self, bucket: Place) -> None:
        state = {"counts": [1]}
        with stopped(), bucket.dataset().staging(owner()) as staging:
            staging.commit(rows(0), state)
            state["counts"].append(2)
            raise StoppedError

        assert attempt(bucket.dataset(), owner(), stop=True).state == {"counts": [1]}

    def test_task_that_has_written_within_a_week_keeps_its_older_commits(self, bucket: Place) -> None:
        attempt(bucket.dataset(), owner(), rows(0), stop=True)
        bucket.now += 7 * 24 * 3600 + 1
        attempt(bucket.dataset(), owner(), rows(2), stop=True)
        attempt(bucket.dataset(), owner("dag/another/task/-1"), rows(9))

        assert attempt(bucket.dataset(), owner(), stop=True).rows == 4

    def test_hundreds_of_segments_are_resumed_in_few_requests(
        self, bucket: Place, store: FakeStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(StoreBackend, "hold_seconds", 0.0)
            attempt(bucket.dataset(), owner(), *(rows(number, 1) for number in range(230)), stop=True)
        batches: list[int] = []
        real = store.cat_ranges

        def cat_ranges(paths: list[str], *arguments: Any, **options: Any) -> Any:
            batches.append(len(paths))
            return real(paths, *arguments, **options)

        store.cat_ranges = cat_ranges
        assert attempt(bucket.dataset(), owner(), stop=True).rows == 230
        assert batches[-8:] == [*[32] * 7, 6]
        attempt(bucket.dataset(), owner())
        assert bucket.lines() == rows(0, 230)
        assert bucket.is_settled()

    def test_a_segment_that_cannot_be_read_ends_the_attempt_and_counts_for_the_next(
        self, bucket: Place, store: FakeStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        attempt(bucket.dataset(), owner(), rows(0), stop=True)

        def refuse(_name: str, path: str) -> None:
            if path.endswith("-000000"):
                raise ConnectionError("the network is gone for a moment")

        with monkeypatch.context() as patch:
            patch.setattr(store, "on_request", refuse)
            with pytest.raises(OSError, match=r"d\.jsonl cannot be read: the network is gone"):
                bucket.dataset().staging(owner()).__enter__()
        assert attempt(bucket.dataset(), owner(), stop=True).rows == 2

    def test_a_name_with_characters_of_patterns(self, bucket: Place, store: FakeStore) -> None:
        store.pipe_file(f"/bucket/top/.1.jsonl.staging/{owner().folder}/0001-00000000", b"")
        attempt(bucket.dataset("[1].jsonl"), owner(), rows(0), stop=True)
        assert attempt(bucket.dataset("[1].jsonl"), owner()).resumed

        assert bucket.staged(name="1.jsonl")
        assert bucket.is_settled("[1].jsonl")

    def test_objects_that_cannot_be_removed_fail_nothing_and_do_not_count(
        self, bucket: Place, store: FakeStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise PermissionError("Access Denied")

        with monkeypatch.context() as patch:
            patch.setattr(store, "rm", refuse)
            patch.setattr(store, "rm_file", refuse)
            summary = attempt(bucket.dataset(), owner(), rows(0)).summary
        assert segments(bucket)

        assert bucket.dataset().published(owner()) == summary
        assert attempt(bucket.dataset(), owner(clears=1), rows(5)).resumed is False
        assert bucket.is_settled()


class TestLargeFiles:
    @pytest.fixture(autouse=True)
    def small_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(object_store, "_PART_BYTES", 1000)
        monkeypatch.setattr(object_store, "_BLOCK_BYTES", 1500)

    def test_large_file_is_sent_in_parts_and_read_in_parts(self, bucket: Place, store: FakeStore) -> None:
        long = [{"id": "x" * 5000, "n": 1}]
        attempt(bucket.dataset(), owner(), long, rows(0), stop=True)
        assert attempt(bucket.dataset(), owner(), rows(5)).resumed

        assert bucket.lines() == [*long, *rows(0), *rows(5)]
        assert store.blocks
        assert store.discarded == 0

    def test_large_file_that_was_replaced_meanwhile_is_given_up(self, store: FakeStore) -> None:
        bucket = store_place(store)

        def another() -> None:
            store.on_block = lambda: None
            bucket.write("d.jsonl", b"of another program")

        with pytest.raises(DestinationReplacedError), bucket.dataset().staging(owner()) as staging:  # noqa: PT012
            staging.commit([{"id": "x" * 5000, "n": 1}], None)
            staging.flush()
            store.on_block = another

        assert store.discarded == 1
        assert bucket.read("d.jsonl") == b"of another program"


class StandIn:
    """The client of a cloud, as far as a conditional write needs it; it keeps what it is told to send."""

    _location = "https://host"

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        self.sent: dict[str, Any] = {}

    def pipe_file(self, path: str, value: Any, **fields: Any) -> dict[str, str]:
        self.sent = {"path": path, "content": value.read(), **fields}
        return {"etag": '"v2"'}

    def call(self, method: str, url: str, data: Any, **fields: Any) -> dict[str, str]:
        self.sent = {"path": f"{method} {url}", "content": data.read(), **fields}
        data.close()
        data.seek(0)
        return {"etag": "CJ8=", "generation": "v2"}

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.partition("/")
        return bucket, key, None


GOOGLE = {"path": "POST https://host/upload/storage/v1/b/bucket/o", "uploadType": "media", "name": "d.jsonl"}


@pytest.mark.parametrize(
    ("protocol", "version", "sent"),
    [
        ("gs", None, {**GOOGLE, "ifGenerationMatch": "0", "json_out": True}),
        ("gs", "v1", {**GOOGLE, "ifGenerationMatch": "v1", "json_out": True}),
        ("gs", object_store.ANY, {**GOOGLE, "json_out": True}),
        ("abfs", None, {"path": "bucket/d.jsonl", "mode": "create"}),
        ("abfs", object_store.ANY, {"path": "bucket/d.jsonl"}),
    ],
)
def test_condition_of_a_write_is_sent_in_the_words_of_the_cloud(
    protocol: str, version: str | None, sent: dict[str, Any]
) -> None:
    client = StandIn(protocol)
    write = object_store.conditional_write(client)
    with closing(ScratchFile()) as new:
        new.write([b"content"])
        assert write("bucket/d.jsonl", new, version) == "v2"
    assert client.sent == {**sent, "content": b"content"}
