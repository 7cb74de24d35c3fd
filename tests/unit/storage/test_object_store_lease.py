"""The lease of a dataset on an object store: whose it is, when it goes stale, and what makes it unreadable."""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError, PermanentError, TaskStoppedError
from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS
from airflow_provider_mediaops.storage.object_store import ObjectStage
from tests.unit.storage.attempts import LEASE, begin, die
from tests.unit.storage.places import Place, StoppedError, owner, rows
from tests.unit.storage.turns import World, client

if TYPE_CHECKING:
    from tests.unit.storage.conftest import Store


class TestLease:
    def test_that_of_a_dead_task_ends_after_a_while(
        self, bucket: Place, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        die(monkeypatch, store, bucket, rows(0))
        bucket.now += STALE_AFTER_SECONDS - 1
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
            bucket.now += STALE_AFTER_SECONDS - 10
            staging.commit(rows(0), None)
        bucket.now += STALE_AFTER_SECONDS - 10
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

    def test_that_of_a_task_that_airflow_stopped_is_free_for_another_at_once(self, bucket: Place) -> None:
        block, staging = begin(bucket)
        staging.commit(rows(0), None)
        assert not block.__exit__(TaskStoppedError, TaskStoppedError(), None)

        block, staging = begin(bucket, "other")
        assert staging.resumed is False
        block.__exit__(None, None, None)

    @pytest.mark.parametrize("is_lost", [False, True], ids=["refused", "reply lost"])
    @pytest.mark.parametrize("conditional", [True, False])
    def test_that_of_an_attempt_that_fails_while_it_begins_is_free_for_another_at_once(
        self, *, conditional: bool, is_lost: bool
    ) -> None:
        def has(number: int) -> bool:
            """Let a request of a beginning attempt fail, and another begin; return whether there is that request."""
            requests = iter(range(number))
            failed: list[bool] = []

            def turn() -> bool:
                if failed or next(requests, None) is not None:
                    return False
                failed.append(True)
                if not is_lost:
                    raise ConnectionError("the network is gone")
                return True

            world = World(rows=2, conditional=conditional)
            with client(world) as path:
                stage = ObjectStage(path, owner(), world.clock)
                stage.append(b"{}\n", 1, None)
                stage.close()
            with suppress(OSError), client(world, turn=turn) as path:
                stage = ObjectStage(path, owner(), world.clock)
                failed.append(False)
                stage.close()
            with client(world) as path:
                ObjectStage(path, owner("other"), world.clock).close()
            return failed[0]

        reached = list(itertools.takewhile(has, range(100)))
        assert 5 < len(reached) < 100

    def test_a_check_leaves_the_destination_and_what_is_staged_as_they_are(self, bucket: Place) -> None:
        block, staging = begin(bucket)
        staging.commit(rows(0), None)
        block.__exit__(TaskStoppedError, TaskStoppedError(), None)
        bucket.dataset().check(owner())

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
        bucket.now += STALE_AFTER_SECONDS
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

    @pytest.mark.parametrize("content", [b"", b"[]", b'{"version":1}', b'{"version":1,"owner":1}'])
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

        bucket.now += STALE_AFTER_SECONDS
        other, _ = begin(wrong, "other")
        other.__exit__(None, None, None)

    def test_without_one_the_clocks_of_the_machines_do(self, bucket: Place, store: Store) -> None:
        store.clock = None
        _block, staging = begin(bucket)
        for _ in range(3):
            bucket.now += STALE_AFTER_SECONDS - 10
            staging.commit(rows(0), None)
            with pytest.raises(DestinationInUseError, match="last heard of at 2027"):
                begin(bucket, "other")
        bucket.now += STALE_AFTER_SECONDS
        other, taken = begin(bucket, "other")
        assert taken.resumed is False
        other.__exit__(None, None, None)

    @pytest.mark.parametrize("content", [b"18", b"1e300", b"inf", b"nan", b"-9e99", b"9" * 400, b"\xff"])
    def test_a_sign_of_life_that_is_damaged_counts_as_none(self, bucket: Place, store: Store, content: bytes) -> None:
        store.clock = None
        _block, staging = begin(bucket)
        bucket.now += STALE_AFTER_SECONDS
        staging.commit(rows(0), None)
        store.pipe_file(next(name for name in store.names if name.endswith("alive")), content)

        other, _ = begin(bucket, "other")
        other.__exit__(None, None, None)
