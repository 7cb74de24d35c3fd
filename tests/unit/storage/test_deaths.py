"""An attempt dies at each step that it takes, and the next one goes on: every step, both kinds of place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS
from tests.unit.storage.dying import DeathError, Life
from tests.unit.storage.places import Place, StoppedError, attempt, owner, rows, stopped

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.dataset import Dataset
    from airflow_provider_mediaops.storage.ownership import Owner

BATCHES = [rows(0), rows(2), [], rows(4, 3)]
ROWS = 7


def work(dataset: Dataset, acknowledged: list[int]) -> dict[str, Any]:
    """Do what a task does: return what it has published, or go on from what is committed."""
    summary = dataset.published(owner())
    if summary is not None:
        return summary
    with dataset.staging(owner()) as staging:
        done = staging.state["batch"] if staging.state else 0
        assert done in (len(acknowledged), len(acknowledged) + 1)
        assert list(staging.records()) == [row for batch in BATCHES[:done] for row in batch]
        del acknowledged[:]
        acknowledged += range(done)
        for batch in BATCHES[done:]:
            staging.commit(batch, {"batch": len(acknowledged) + 1})
            acknowledged.append(len(acknowledged))
    return staging.summary


def undisturbed(place: Place, name: str) -> tuple[bytes, dict[str, Any]]:
    work(place.dataset(f"older.{name}"), [])
    summary = work(place.dataset(name), [])
    content = place.read(name)
    for each in (name, f".{name}.checkpoint"):
        place.remove(each)
    return content, summary


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.parquet"])
def test_whichever_step_is_the_last_the_next_attempt_loses_nothing(mortal: tuple[Place, Life], name: str) -> None:
    place, life = mortal
    content, summary = undisturbed(place, name)
    life.steps = 0
    work(place.dataset(name), [])
    steps = life.steps
    assert steps > 10

    for last in range(steps):
        for each in (name, f".{name}.checkpoint"):
            place.remove(each)
        acknowledged: list[int] = []
        life.left, life.torn = last, False
        with pytest.raises(DeathError):
            work(place.dataset(name), acknowledged)
        assert name not in place.names() or place.read(name) == content
        life.left = None

        assert work(place.dataset(name), acknowledged) == summary
        assert place.read(name) == content
        assert place.names() == sorted([f".{name}.checkpoint", name, f".older.{name}.checkpoint", f"older.{name}"]), (
            f"died at step {last}"
        )
        assert place.dataset(name).published(owner()) == summary


def test_attempts_that_die_again_and_again_come_to_an_end(mortal: tuple[Place, Life]) -> None:
    place, life = mortal
    content, summary = undisturbed(place, "d.csv")
    acknowledged: list[int] = []
    for last in range(3, 60):
        life.left, life.torn = last, False
        try:
            found = work(place.dataset("d.csv"), acknowledged)
        except DeathError:
            continue
        assert found == summary
        assert place.read("d.csv") == content
        return
    pytest.fail("no attempt came to its end")


def begin_anew(dataset: Dataset) -> dict[str, Any]:
    """Discard what an older attempt committed, unless that is done, and publish other records."""
    summary = dataset.published(owner())
    if summary is not None:
        return summary
    with dataset.staging(owner()) as staging:
        kept = list(staging.records())
        # Never a part of one with a part of the other.
        assert kept in ([], rows(0), rows(0, 4), rows(7), rows(7, 4)), kept
        if kept[:1] == rows(0)[:1]:
            staging.discard()
            assert (staging.rows, staging.state, list(staging.records())) == (0, None, [])
        for first in range(7 + staging.rows, 11, 2):
            staging.commit(rows(first), None)
    return staging.summary


def test_whichever_step_is_the_last_what_is_discarded_does_not_come_back(mortal: tuple[Place, Life]) -> None:
    place, life = mortal
    last = 0
    while True:
        for each in place.names():
            place.remove(each)
        life.left = None
        with stopped(), place.dataset().staging(owner()) as staging:
            staging.commit(rows(0), None)
            staging.commit(rows(2), None)
            raise StoppedError
        life.left, life.torn = last, False
        try:
            summary = begin_anew(place.dataset())
        except DeathError:
            life.left = None
            summary = begin_anew(place.dataset())
        else:
            break
        assert (summary["rows"], place.lines()) == (4, rows(7, 4)), f"died at step {last}"
        assert place.names() == [".d.jsonl.checkpoint", "d.jsonl"], f"died at step {last}"
        last += 1
    assert last > 10


@pytest.mark.parametrize("following", [owner(clears=1), owner("other")])
def test_whichever_step_is_the_last_nobody_else_publishes_what_was_staged(
    mortal: tuple[Place, Life], following: Owner
) -> None:
    """An attempt that was thought dead goes on after its task has published, and dies while it publishes."""
    place, life = mortal
    last = 0
    while True:
        for each in place.names():
            place.remove(each)
        life.left = None
        attempt(place.dataset(), owner(), rows(0))
        life.left, life.torn = last, False
        try:
            attempt(place.dataset(), owner(), rows(1))
        except DeathError:
            life.left = None
        else:
            break
        # A lease of another task would hold until then.
        place.now += STALE_AFTER_SECONDS
        before = place.lines()
        assert place.dataset().published(following) is None
        assert place.lines() == before, f"died at step {last}"
        assert attempt(place.dataset(), following, rows(2)).resumed is False
        assert place.lines() == rows(2), f"died at step {last}"
        assert place.names() == [".d.jsonl.checkpoint", "d.jsonl"], f"died at step {last}"
        last += 1
    assert last >= 5


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv"])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_whichever_step_is_the_last_a_cleared_task_goes_on_unless_it_had_published(
    mortal: tuple[Place, Life],
    name: str,
    is_replaced: bool,  # noqa: FBT001
) -> None:
    place, life = mortal
    last = 0
    while True:
        for each in place.names():
            place.remove(each)
        life.left, life.torn = last, False
        commits: list[int] = []
        try:
            work(place.dataset(name), commits)
        except DeathError:
            life.left = None
        else:
            break
        has_published = name in place.names()
        if has_published and is_replaced:
            place.write(name, b"of another program")
        assert place.dataset(name).published(owner(clears=1)) is None
        cleared = attempt(place.dataset(name), owner(clears=1), rows(7))
        if not has_published:
            assert cleared.summary["rows"] >= sum(map(len, BATCHES[: len(commits)])) + len(rows(7)), last
        elif "://" not in place.prefix:
            # On a store, a death between the upload and its receipt leaves it unknown who has published.
            assert cleared.summary["rows"] == len(rows(7)), f"died at step {last}"
        assert place.names() == sorted([f".{name}.checkpoint", name]), f"died at step {last}"
        last += 1
    assert last >= 5
