"""Parts that are merged: few are left, and whatever fails, dies or writes on meanwhile, nothing is lost or mixed."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from airflow.sdk import ObjectStoragePath
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_mediaops.exceptions import DestinationInUseError
from airflow_provider_mediaops.storage.compaction import Tiers
from airflow_provider_mediaops.storage.object_store import ObjectStage, published_in_store
from tests.unit.storage.dying import DeathError, Life
from tests.unit.storage.places import START, owner
from tests.unit.storage.turns import CLAIM, FILE, World, actors, check_committed, check_next_attempt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.storage.conftest import Store
    from tests.unit.storage.turns import Actor

PARTS = "/bucket/.d.jsonl.parts/"
PAIRS = Tiers(fan_in=2, largest=10**6)


def stage_of(tiers: Tiers) -> ObjectStage:
    return ObjectStage(ObjectStoragePath("memory://shelf@bucket/d.jsonl"), owner(), lambda: START, tiers)


class Begin(Protocol):
    """Begins an attempt, which ends with the test at the latest."""

    def __call__(self, tiers: Tiers = PAIRS) -> ObjectStage: ...


@pytest.fixture
def begin(store: Store) -> Iterator[Begin]:
    assert store.names == []
    with ExitStack() as stack:

        def begin(tiers: Tiers = PAIRS) -> ObjectStage:
            return stack.enter_context(closing(stage_of(tiers)))

        yield begin


def line(number: int) -> bytes:
    return json.dumps({"n": number}).encode() + b"\n"


def append(stage: ObjectStage, first: int, last: int) -> None:
    for number in range(first, last + 1):
        stage.append(line(number), 1, {"n": number})


def numbers(stage: ObjectStage) -> list[int]:
    return [json.loads(each)["n"] for each in stage.lines()]


def spans(store: Store) -> list[str]:
    """Give which commits each part holds."""
    names = (name.removeprefix(PARTS).partition(".")[0] for name in store.names if name.startswith(PARTS))
    return ["-".join(str(int(word)) for word in name.split("-")) for name in names]


def is_merged(path: str) -> bool:
    first, _, last = path.removeprefix(PARTS).partition(".")[0].partition("-")
    return path.startswith(PARTS) and first != last


class TestMerging:
    @pytest.mark.parametrize(
        ("commits", "tiers", "left"),
        [
            (1, PAIRS, ["1-1"]),
            (2, PAIRS, ["1-2"]),
            (7, PAIRS, ["1-4", "5-6", "7-7"]),
            (8, PAIRS, ["1-8"]),
            (11, Tiers(fan_in=3), ["1-9", "10-10", "11-11"]),
            # A record has nine bytes or ten.
            (11, Tiers(fan_in=9, largest=40), ["1-3", "4-6", "7-9", "10-11"]),
        ],
    )
    def test_small_parts_become_long_ones(
        self, begin: Begin, store: Store, commits: int, tiers: Tiers, left: list[str]
    ) -> None:
        stage = begin(tiers)
        append(stage, 1, commits)
        assert spans(store) == left
        stage.close()

        again = begin(tiers)
        assert (numbers(again), again.state) == (list(range(1, commits + 1)), {"n": commits})
        again.close()

    def test_nothing_is_read_from_the_store_for_it(
        self, begin: Begin, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stage = begin()
        read: list[str] = []
        real = store.cat_file

        def note(path: str) -> bytes:
            read.append(path)
            return bytes(real(path))

        monkeypatch.setattr(store, "cat_file", note)
        append(stage, 1, 8)

        assert set(read) == {CLAIM}
        stage.close()

    def test_an_attempt_merges_what_it_has_written_itself(self, begin: Begin, store: Store) -> None:
        for first, last in ((1, 3), (4, 6)):
            stage = begin()
            append(stage, first, last)
            stage.close()
        assert spans(store) == ["1-2", "3-3", "4-5", "6-6"]

        stage = begin()
        assert numbers(stage) == [1, 2, 3, 4, 5, 6]
        stage.publish(None, {}, None)
        stage.close()
        assert store.names == [CLAIM, FILE]

    def test_a_thousand_commits_leave_few_parts(self, begin: Begin, store: Store) -> None:
        stage = begin(Tiers())
        append(stage, 1, 1000)

        assert len(spans(store)) == 15 + 40
        stage.close()
        again = begin()
        assert numbers(again) == list(range(1, 1001))
        again.close()


class TestFailing:
    def test_a_merged_part_that_cannot_be_written_fails_no_commit(self, begin: Begin, store: Store) -> None:
        stage = begin()
        append(stage, 1, 1)
        store.refusal, store.refuses = ConnectionError("the network is gone"), is_merged
        append(stage, 2, 2)
        assert (stage.extent.rows, stage.state) == (2, {"n": 2})
        store.refusal = None
        append(stage, 3, 6)

        assert spans(store) == ["1-1", "2-2", "3-6"]
        stage.close()
        assert numbers(begin()) == [1, 2, 3, 4, 5, 6]

    def test_one_that_was_written_though_the_reply_was_lost_counts(
        self, begin: Begin, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stage = begin()
        real = store.pipe_file

        def lose(path: str, value: bytes, **options: Any) -> None:
            real(path, value, **options)
            if is_merged(path):
                raise TimeoutError("the reply was lost")

        with monkeypatch.context() as patch:
            patch.setattr(store, "pipe_file", lose)
            append(stage, 1, 2)
        append(stage, 3, 4)
        assert spans(store) == ["1-1", "1-2", "2-2", "3-4"]
        stage.close()

        again = begin()
        assert numbers(again) == [1, 2, 3, 4]
        assert spans(store) == ["1-2", "3-4"]

    def test_small_parts_that_cannot_be_removed_go_later(
        self, begin: Begin, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(_: Any) -> None:
            raise PermissionError("Access Denied")

        stage = begin()
        with monkeypatch.context() as patch:
            patch.setattr(store, "rm_file", refuse)
            append(stage, 1, 4)
        assert spans(store) == ["1-1", "1-2", "1-4", "2-2", "3-3", "4-4"]
        append(stage, 5, 8)
        assert spans(store) == ["1-1", "1-2", "1-8", "2-2", "3-3", "4-4"]
        stage.close()

        assert numbers(begin()) == list(range(1, 9))
        assert spans(store) == ["1-8"]

    def test_small_parts_stay_where_the_claim_cannot_be_read(
        self, begin: Begin, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise ConnectionError("the network is gone")

        stage = begin()
        append(stage, 1, 1)
        with monkeypatch.context() as patch:
            patch.setattr(store, "cat_file", refuse)
            append(stage, 2, 2)

        assert spans(store) == ["1-1", "1-2", "2-2"]
        assert stage.extent.rows == 2

    def test_a_store_that_writes_in_several_steps_may_leave_a_torn_one(self, begin: Begin, store: Store) -> None:
        stage = begin(Tiers(fan_in=5))
        append(stage, 1, 4)
        name = next(name for name in store.names if "00000003-" in name)
        store.pipe_file(name.replace("00000003-00000003", "00000002-00000003"), store.cat_file(name)[:-5])
        stage.close()

        again = begin()
        assert numbers(again) == [1, 2, 3, 4]
        assert spans(store) == ["1-1", "2-2", "3-3", "4-4"]

    def test_a_temporary_file_that_has_lost_its_content_replaces_nothing(
        self, begin: Begin, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stage = begin()
        append(stage, 1, 1)
        monkeypatch.setattr("os.pread", lambda *_: b"")
        with pytest.raises(OSError, match=r"the temporary file no longer holds .*goes on after 2 rows"):
            append(stage, 2, 2)
        monkeypatch.undo()

        assert spans(store) == ["1-1", "2-2"]
        assert numbers(begin()) == [1, 2]


class TestTakenOver:
    def test_what_was_merged_up_to_then_is_gone_on_with(self, begin: Begin, store: Store) -> None:
        first = begin(Tiers(fan_in=4))
        append(first, 1, 5)
        second = begin(Tiers(fan_in=4))
        append(second, 6, 8)

        third = begin()
        assert (numbers(third), third.state) == (list(range(1, 9)), {"n": 8})
        assert spans(store) == ["1-4", "5-5", "6-6", "7-7", "8-8"]

    def test_one_that_was_thought_dead_and_merges_learns_of_it_and_removes_nothing(
        self, begin: Begin, store: Store
    ) -> None:
        first = begin(Tiers(fan_in=4))
        append(first, 1, 3)
        second = begin(Tiers(fan_in=4))
        append(second, 4, 4)
        with pytest.raises(DestinationInUseError):
            append(first, 90, 90)
        assert spans(store) == ["1-1", "1-4", "2-2", "3-3", "4-4", "4-4"]

        third = begin()
        assert (numbers(third), third.state) == ([1, 2, 3, 4], {"n": 4})
        assert spans(store) == ["1-1", "2-2", "3-3", "4-4"]

    def test_what_it_merged_counts_for_those_who_know_of_no_other(self, begin: Begin, store: Store) -> None:
        first = begin(Tiers(fan_in=4))
        append(first, 1, 3)
        # This one dies before it has written anything.
        begin()
        with pytest.raises(DestinationInUseError):
            append(first, 4, 4)

        assert numbers(begin()) == [1, 2, 3, 4]
        assert spans(store) == ["1-4"]


def work(commits: int, tiers: Tiers) -> None:
    path = ObjectStoragePath("memory://shelf@bucket/d.jsonl")
    if published_in_store(path, owner()) is None:
        stage = stage_of(tiers)
        try:
            append(stage, (stage.state or {"n": 0})["n"] + 1, commits)
            stage.publish(None, {}, None)
        finally:
            stage.close()


@pytest.mark.parametrize(
    ("commits", "tiers"), [(9, PAIRS), (11, Tiers(fan_in=3)), (14, Tiers(fan_in=4, largest=40)), (70, Tiers())]
)
def test_whichever_step_is_the_last_the_published_file_is_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch, commits: int, tiers: Tiers
) -> None:
    life = Life(monkeypatch)
    life.of(store)
    work(commits, tiers)
    undisturbed, steps = store.cat_file(FILE), life.steps
    assert steps > 2 * commits

    for last in range(steps):
        store.store.clear()
        life.left = last
        with pytest.raises(DeathError):
            work(commits, tiers)
        life.left = None
        work(commits, tiers)

        assert store.cat_file(FILE) == undisturbed, f"died at step {last}"
        assert store.names == [CLAIM, FILE]


def test_attempts_that_die_again_and_again_come_to_an_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(monkeypatch)
    life.of(store)
    work(40, PAIRS)
    undisturbed = store.cat_file(FILE)
    store.store.clear()
    for last in range(3, 60):
        life.left = last
        try:
            work(40, PAIRS)
        except DeathError:
            continue
        assert store.cat_file(FILE) == undisturbed
        assert store.names == [CLAIM, FILE]
        return
    pytest.fail("no attempt came to its end")


def check(world: World, made: list[Actor], *, exact: bool = True) -> None:
    """End all attempts, and look at what the next one makes of what they leave."""
    for actor in made:
        actor.die()
        assert isinstance(actor.outcome, (type(None), DeathError, OSError, DestinationInUseError)), actor.outcome
    for actor in made if exact else ():
        check_committed(world, actor)
    check_next_attempt(world)


def steps_of(rows: int, tiers: Tiers) -> int:
    world, steps = World(rows, tiers), 0
    with actors(world, "alone") as (alone,):
        while not alone.ended:
            alone.step()
            steps += 1
    return steps


def test_a_take_over_between_any_two_requests_of_one_that_merges() -> None:
    """The other begins at each step of the first, and the first goes on at each step of the other."""
    total = steps_of(4, PAIRS)
    for before in range(total):
        for between in range(1, total):
            world = World(4, PAIRS)
            with actors(world, "first", "second") as (first, second):
                first.step(before)
                second.step(between)
                first.finish()
                check(world, [first, second])


@pytest.mark.parametrize("between", range(1, 9))
def test_one_that_merges_while_another_takes_over(between: int) -> None:
    """The first makes some requests while the other begins, and the rest after the other's first commit."""

    for before in (10, 15, 18):
        for meanwhile in range(1, 12):
            world = World(6, PAIRS)
            with actors(world, "first", "second") as (first, second):
                first.step(before)
                second.step(between)
                first.step(meanwhile)
                while not (second.ended or (second.kept and second.kept[-1]["by"].startswith("second"))):
                    second.step()
                first.step(7)
                check(world, [first, second])


STEPS = st.tuples(
    st.integers(0, 2), st.sampled_from(["", "", "", "refused", "reply lost", "late", "dies"]), st.integers(1, 30)
)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([(5, PAIRS), (9, Tiers(3)), (7, Tiers(2, 300))]), st.lists(STEPS, min_size=2, max_size=14))
def test_three_attempts_in_any_order(shape: tuple[int, Tiers], schedule: list[tuple[int, str, int]]) -> None:
    world = World(*shape)
    with actors(world, "first", "second", "third") as made:
        for number, event, steps in schedule:
            if event == "dies":
                made[number].die()
            elif event == "late":
                # Long enough for the next look at the claim.
                world.now += 40
            else:
                made[number].fault = event
            made[number].step(steps)
        # What was committed although it seemed to fail is committed again; an heir may know of the first try only.
        check(world, made, exact="reply lost" not in {event for _, event, _ in schedule})
