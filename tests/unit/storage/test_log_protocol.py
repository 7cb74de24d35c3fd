"""The log: attempts in any order, on a disk and on stores with and without conditional writes."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError, DestinationReplacedError
from airflow_provider_mediaops.storage import local
from tests.unit.storage.schedules import (
    CLEARED,
    NEXT,
    TWO_PAGES,
    A,
    Attempt,
    B,
    Plan,
    World,
    identity_of,
    length,
    pace,
    pause,
    to_end,
)

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.ownership import Owner

pytestmark = pytest.mark.once

#: A disk, and stores by what they make of the condition of a publication. The log itself is written without conditions.
KINDS = ["disk", "conditions", "none", "ignores", "refuses"]
#: Those of them whose publication takes other steps: under a lock, in one request, or with a race before it and a look
#: behind it. What the others make of a condition shows in each single schedule.
PLACES = ["disk", "conditions", "none"]

all_kinds = pytest.mark.parametrize("kind", KINDS)
places = pytest.mark.parametrize("kind", PLACES)


@pytest.fixture(autouse=True)
def paced(monkeypatch: pytest.MonkeyPatch) -> None:
    pace(monkeypatch)


@pytest.fixture
def changes() -> str | None:
    """Have changes at a path for each run, unless a test says otherwise."""
    return "own"


@pytest.fixture
def world(kind: str, changes: str | None) -> Iterator[World]:
    """Have a world that is closed after the test."""
    made = World(kind, changes)
    yield made
    made.close()


def write_to(kind: str, name: str) -> str:
    """Return the label of the operation that publishes a file."""
    if kind == "disk":
        return f"replace {name}"
    return f"put_object {name}" if kind in ("conditions", "ignores", "refuses") else f"put_file {name}"


def until_written(attempt: Attempt, kind: str) -> bool:
    """Run up to the write that replaces the dataset; a store that refuses the condition is asked once more."""
    if kind == "refuses" and attempt.until(write_to(kind, "data")):
        attempt.step()
    return attempt.until(write_to(kind, "data"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "plan"),
    [
        *(pytest.param(kind, TWO_PAGES, id=f"{kind}-two") for kind in KINDS),
        *(pytest.param(kind, Plan(pages=(2, 0)), id=f"{kind}-empty") for kind in PLACES),
        *(pytest.param(kind, Plan(fingerprint="same"), id=f"{kind}-kept") for kind in PLACES),
    ],
)
def test_a_task_killed_after_any_operation_is_finished_by_its_retry(kind: str, plan: Plan) -> None:
    # Many operations only read: what is left after them has been judged already.
    seen: set[int] = set()
    for torn in (False, True) if kind == "disk" else (False,):
        for steps in range(1, length(kind, plan) + 1):
            world = World(kind)
            x = world.attempt("X", A, "00000001", plan).run(steps)
            if torn:
                x.step(torn=True)
            x.kill()
            world.check_alone(seen)
            before = len(world.history)
            retry = world.lone(A, "retry", plan)
            assert retry.result
            assert len(x.asked) + len(retry.asked) <= len(plan.pages) + 1
            assert len(world.history) - before <= 1
            world.check_changes()
            if not plan.fingerprint:
                world.check_compared()
            world.close()


@pytest.mark.long
@places
def test_an_attempt_with_a_newer_one_beside_it_finishes_one_write_at_most(kind: str) -> None:
    writes = ("replace", "create 0001-") if kind == "disk" else ("pipe_file", "put_file", "put_object", "rm_file")
    for steps in range(1, length(kind) + 1):
        world = World(kind)
        x = world.attempt("X", A, "00000001").run(steps)
        y = world.attempt("Y", A, "00000002")
        # Who removes the rest of a log has looked before the first of many requests.
        is_removing = x.label.startswith("rm_file")
        if world.names(A) and not is_removing and y.until(f"{'create' if kind == 'disk' else 'pipe_file'} 0002"):
            y.step()
            written = set()
            while not x.over:
                if x.label.startswith(writes):
                    written.add(x.label.partition(" ")[2])
                x.step()
            assert len(written) <= 1
            assert isinstance(x.error, DestinationInUseError)
        world.close()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["disk", "conditions", "none"])
@pytest.mark.parametrize(
    ("other", "changes"),
    [(A, "own"), (B, "own"), (B, "shared")],
    ids=["one task", "two runs", "two runs with one file of changes"],
)
@pytest.mark.parametrize("wakes_last", [True, False])
def test_two_attempts_that_take_turns_replace_nothing_that_is_newer(
    kind: str, other: Owner, changes: str, *, wakes_last: bool
) -> None:
    seen: set[int] = set()
    total = length(kind, changes=changes)
    for i in range(1, total + 1, 3):
        for j in range(1 + i % 5, total + 1, 5):
            world = World(kind, changes)
            x = world.attempt("X", A, "00000001").run(i)
            y = world.attempt("Y", other, "00000002").run(j)
            if not wakes_last:
                world.check_alone(seen)
            to_end(*((y, x) if wakes_last else (x, y)))
            world.check_changes()
            if other == A and world.is_exact:
                world.check_compared()
            world.check_alone(seen)
            world.close()


@all_kinds
def test_the_lower_of_two_claims_asks_for_nothing(kind: str, world: World) -> None:
    x, y = world.attempt("X", A, "00000001"), world.attempt("Y", A, "00000002")
    for each in (x, y):
        assert each.until(f"{'create' if kind == 'disk' else 'pipe_file'} 0001-{each.token}")
    y.step()
    x.run()
    assert isinstance(x.error, DestinationInUseError)
    assert x.asked == []
    assert y.run().result["by"] == ["Y", "Y"]


@pytest.mark.parametrize("kind", ["conditions"])
@pytest.mark.parametrize("changes", [None])
def test_a_third_attempt_resumes_one_of_two_branches(world: World) -> None:
    plan = Plan(pages=(1, 1, 1, 1))
    x = world.attempt("X", A, "00000001", plan)
    assert x.until("pipe_file 0001-00000001-000001")
    y = world.attempt("Y", A, "00000002", plan)
    assert y.until("pipe_file 0002-00000002-000001")
    x.step()  # the late page 1 of X beside that of Y
    y.kill()
    z = world.attempt("Z", A, "00000003", plan).run()
    assert z.result["by"] == ["X", "Y", "Z", "Z"]


@all_kinds
@pytest.mark.parametrize("changes", ["own", "shared"])
@pytest.mark.parametrize("wakes", [True, False])
def test_a_death_between_the_dataset_and_its_changes_and_another_run(kind: str, world: World, *, wakes: bool) -> None:
    x = world.attempt("X", A, "00000001")
    assert x.until(write_to(kind, "changes"))
    assert len(world.history) == 2
    if not wakes:
        x.kill()
    b = world.attempt("B", B, "00000005").run()  # may wait for the lock of the shared file of changes
    to_end(x, b)
    assert b.result or isinstance(b.error, DestinationReplacedError)
    if not wakes:
        assert world.lone(A, "retry").result
    world.check_changes()
    world.check_alone()


@pytest.mark.parametrize("kind", ["conditions"])
@pytest.mark.parametrize("changes", [None])
def test_a_kept_file_is_not_kept_if_it_was_replaced_since(world: World) -> None:
    kept = Plan(fingerprint="once")
    assert world.lone(A, "X", kept).result["changed"]
    c = world.attempt("C", CLEARED, "00000003", kept)
    assert c.until("pipe_file 0002-00000003-000002")
    assert world.lone(B, "B").result
    c.run()
    assert isinstance(c.error, DestinationReplacedError)
    assert world.lone(CLEARED, "retry", kept).result["changed"]


@all_kinds
def test_a_done_frame_for_a_version_that_was_replaced_is_done_again(kind: str, world: World) -> None:
    x = world.attempt("X", A, "00000001")
    assert x.until(write_to(kind, "data"))
    x.kill()
    assert world.lone(B, "B").result
    retry = world.lone(A, "retry")
    assert (retry.result["by"], retry.asked) == (["X", "X"], [])
    assert world.step_of(A)["from"] == identity_of(world.history[-2][0])
    world.check_changes()
    world.check_alone()


@all_kinds
def test_of_two_done_frames_with_one_content_the_newest_counts(kind: str, world: World) -> None:
    x = world.attempt("X", A, "00000001")
    assert x.until(write_to(kind, "data"))  # against the old file
    x.kill()
    assert world.lone(B, "B").result
    y = world.attempt("Y", A, "00000002")
    assert y.until(write_to(kind, "changes"))  # against that of B
    y.kill()
    assert world.lone(A, "retry").result
    assert world.step_of(A)["from"] == identity_of(world.history[-2][0])
    world.check_changes()


@all_kinds
def test_a_last_frame_that_comes_late_hides_no_newer_work(kind: str, world: World) -> None:
    x = world.attempt("X", A, "00000001")
    assert x.until("-last")
    assert world.lone(B, "B").result
    y = world.attempt("Y", A, "00000002")
    assert y.until(write_to(kind, "changes"))
    y.kill()
    assert isinstance(x.run().error, DestinationInUseError)
    retry = world.lone(A, "retry")
    assert (retry.result["by"], retry.asked) == (["X", "X"], [])
    assert world.step_of(A)["from"] == identity_of(world.history[-2][0])
    assert world.manifest()


@all_kinds
def test_a_published_result_is_returned_whatever_is_there_now(kind: str, world: World) -> None:
    x = world.attempt("X", A, "00000001")
    assert x.until("unlink 0001-" if kind == "disk" else "rm_file 0001-")
    x.kill()
    assert world.lone(B, "B").result
    before = len(world.history)
    retry = world.lone(A, "retry")
    assert (retry.result["by"], retry.asked) == (["X", "X"], [])
    assert len(world.history) == before
    assert world.dataset(A).published(A) == retry.result
    assert world.dataset(CLEARED).published(CLEARED) is None


@all_kinds
def test_frames_below_the_last_one_are_over(kind: str, world: World) -> None:
    x = world.attempt("X", A, "00000001")
    assert x.until("ask for page 1")
    x.kill()
    y = world.attempt("Y", A, "00000002")
    assert y.until("unlink 0001-" if kind == "disk" else "rm_file 0001-")
    y.kill()
    assert {name[:4] for name in world.names(A)} == {"0001", "0002"}
    with world.copied() as cleared:
        assert cleared.lone(CLEARED, "C", Plan(fresh=True)).result["by"] == ["C", "C"]
    before = len(world.history)
    retry = world.lone(A, "retry")
    assert (retry.result["by"], retry.asked) == (["X", "Y"], [])
    assert len(world.history) == before


@pytest.mark.long
@places
def test_a_cleared_task_that_dies_resumes_its_own_pages_only(kind: str) -> None:
    plan, seen = Plan(fresh=True), set[int]()
    for steps in range(1, length(kind) + 1):
        world = World(kind)
        assert world.lone(A, "X").result
        c = world.attempt("C", CLEARED, "00000003", plan).run(steps)
        c.kill()
        world.check_alone(seen)
        retry = world.lone(CLEARED, "retry", plan)
        assert retry.result
        assert len(c.asked) + len(retry.asked) <= 3
        assert "X" not in retry.result["by"]
        world.check_changes()
        world.close()


@all_kinds
def test_attempt_from_before_a_clear_publishes_nothing_after_the_cleared_one(world: World) -> None:
    assert world.lone(CLEARED, "C").result
    before = len(world.history)
    late = world.lone(A, "X")
    assert isinstance(late.error, DestinationInUseError)
    assert (late.asked, len(world.history)) == ([], before)


@all_kinds
def test_run_that_was_deleted_and_is_there_again_publishes_anew(world: World) -> None:
    assert world.lone(CLEARED, "C").result
    # Airflow counts its clears from the start.
    again = world.lone(replace(A, run_start="2026-01-02"), "X", Plan(fresh=True))
    assert again.result["by"] == ["X", "X"]


@pytest.mark.parametrize("lost", ["data.jsonl", "changes-a.json"])
@pytest.mark.parametrize("kind", ["conditions"])
def test_a_write_whose_reply_is_lost_counts_as_the_own(lost: str, world: World) -> None:
    x = world.attempt("X", A, "00000001")
    x.loses = lost
    x.run()
    assert x.result
    assert not x.loses
    assert world.manifest()
    world.check_changes()


@pytest.mark.parametrize("kind", ["none", "ignores", "refuses"])
def test_without_conditions_there_is_a_race_of_one_request(kind: str, world: World) -> None:
    x = world.attempt("X", A, "00000001")
    assert until_written(x, kind)
    assert world.lone(B, "B").result
    x.run()
    assert x.result
    assert world.races == 1
    assert json.loads(world.history[-1][0].splitlines()[0])["by"] == "X"


@all_kinds
@pytest.mark.parametrize("changes", [None])
def test_a_file_that_appeared_before_the_last_request_is_not_replaced(world: World) -> None:
    x = world.attempt("X", A, "00000001")
    assert x.until("ask for page 1")
    assert world.lone(B, "B").result
    x.run()
    assert isinstance(x.error, DestinationReplacedError)
    assert world.races == 0
    assert world.history[-1][1] == "B"


@pytest.mark.parametrize("kind", ["refuses"])
def test_file_that_appeared_while_a_store_refused_the_condition_is_not_replaced(kind: str, world: World) -> None:
    x = world.attempt("X", A, "00000001")
    assert x.until(write_to(kind, "data"))
    assert world.lone(B, "B").result
    x.run()
    assert isinstance(x.error, DestinationReplacedError)
    assert world.races == 0


@pytest.mark.parametrize("kind", ["none", "refuses"])
def test_without_a_reply_the_version_is_that_of_the_own_content(kind: str, world: World) -> None:
    x = world.attempt("X", A, "00000001")
    assert until_written(x, kind)
    x.step()  # written; the version is asked for next
    assert world.lone(B, "B").result
    x.run()
    assert isinstance(x.error, DestinationReplacedError)
    assert (world.manifest() or {})["owner"]["task"] == B.task


@pytest.mark.parametrize("kind", ["disk"])
@pytest.mark.parametrize("changes", [None])
def test_file_that_is_replaced_just_after_its_write_gets_no_manifest_of_its_writer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = world.attempt("X", A, "00000001")
    assert x.until("replace data")
    with monkeypatch.context() as patch:
        # The lock is free again, and the version is asked for next.
        patch.setattr(local, "sync_names", lambda _: pause("sync the names"))
        assert x.until("sync the names")
    assert world.lone(B, "B").result
    x.run()
    assert x.result
    assert (world.manifest() or {"owner": {"task": B.task}})["owner"]["task"] == B.task


@all_kinds
def test_claim_after_others_were_removed_is_higher_than_all_of_them(world: World) -> None:
    for number in (1, 2):
        x = world.attempt(f"X{number}", A, f"0000000{number}")
        assert x.until("ask for page")
        x.kill()
    assert world.lone(A, "X3").result
    assert {name[:4] for name in world.names(A)} == {"0003"}
    cleared = world.lone(CLEARED, "C", Plan(fresh=True))
    assert cleared.result["by"] == ["C", "C"]
    assert {name[:4] for name in world.names(A)} == {"0004"}


@all_kinds
def test_folders_that_nobody_has_written_to_for_seven_days_are_swept(kind: str, world: World) -> None:
    x = world.attempt("X", A, "00000001")
    assert x.until("ask for page 1")
    assert world.lone(B, "B").result
    assert world.names(A)
    world.now += 8 * 24 * 3600
    if kind == "disk":
        folder = Path(world.root, ".data.jsonl.staging")
        for each in folder.rglob("*"):
            os.utime(each, (world.now, world.now))
        for each in [folder / A.folder, *(folder / A.folder).iterdir()]:
            os.utime(each, (1, 1))
    else:
        for path, file in world.store.store.items():
            if A.folder not in path:
                file.written = world.now
    assert world.lone(NEXT, "next").result
    assert not world.names(A)
    assert world.names(B)
    x.run()
    assert "was removed while the task wrote" in str(x.error)
    assert world.lone(A, "retry").result


@all_kinds
@pytest.mark.parametrize("changes", ["shared"])
def test_another_run_has_published_the_same_content(kind: str, world: World) -> None:
    plan = Plan(by="same content")
    x = world.attempt("X", A, "00000001", plan)
    assert x.until(write_to(kind, "data"))
    x.kill()
    assert world.lone(B, "B").result
    assert world.lone(NEXT, "next", plan).result
    retry = world.lone(A, "retry", plan)
    assert retry.result
    assert not retry.asked
    assert world.step_of(A)["from"] == identity_of(world.history[-2][0])


@all_kinds
@pytest.mark.parametrize("changes", [None])
def test_equal_bytes_that_another_run_has_published_meanwhile_are_not_ours(world: World) -> None:
    plan = Plan(by="same content")
    x = world.attempt("X", A, "00000001", plan)
    assert x.until("ask for page 1")
    assert world.lone(B, "B", plan).result
    x.run()
    assert isinstance(x.error, DestinationReplacedError)
    assert (world.manifest() or {})["owner"]["task"] == B.task


@pytest.mark.parametrize("kind", ["disk", "conditions"])
@pytest.mark.parametrize("damage", ["missing", "emptied", "cut", "flipped", "repeated"])
@pytest.mark.parametrize("attempts", [1, 2])
def test_a_damaged_frame_ends_the_log(kind: str, damage: str, attempts: int, world: World) -> None:
    plan = Plan(pages=(1, 1, 1, 1))
    x = world.attempt("X", A, "00000001", plan)
    assert x.until("ask for page 2")
    x.kill()
    if attempts == 2:
        # It goes on from the frame that is damaged then.
        y = world.attempt("Y", A, "00000002", plan)
        assert y.until("ask for page 3")
        y.kill()
    name = f"{world.root}/.data.jsonl.staging/{A.folder}/0001-00000001{'' if kind == 'disk' else '-000001'}"
    content = world.read(name) or b""
    start = content.index(b'{"version":1,"number":1,') - 9 if kind == "disk" else 0
    at = content.index(b'"row"', start)
    first = content[:start] if kind == "disk" else world.read(f"{name[:-1]}0") or b""
    bad = {
        "missing": content[:start],
        "emptied": content[:start],
        "cut": content[:at],
        "flipped": content[:at] + b"?" + content[at + 1 :],
        "repeated": content[:start] + first,
    }[damage]
    stored = name.replace("memory://schedules@", "/")
    if kind == "disk":
        Path(name).write_bytes(bad)
    elif damage == "missing":
        world.store.rm_file(stored)
    else:
        world.store.pipe_file(stored, bad)
    assert world.lone(A, "retry", plan).result["by"] == ["X", "retry", "retry", "retry"]


@pytest.mark.parametrize("kind", ["disk"])
def test_a_lock_that_never_frees_ends_the_attempt(world: World) -> None:
    x = world.attempt("X", A, "00000001")
    assert x.until("replace data")  # it stands still, and holds the lock
    seconds = iter(range(1000))
    local_time = SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=lambda _: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "time", local_time)
        patch.setattr(local, "fcntl", fcntl)
        b = world.attempt("B", B, "00000002").run()
    assert isinstance(b.error, DestinationInUseError)
    assert "half a minute" in str(b.error)
    x.kill()
    assert world.lone(B, "retry").result["by"] == ["B", "B"]
