"""An attempt dies at each step that it takes, and the next one goes on: every step, both kinds of place."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_mediaops.storage.lease import STALE_AFTER_SECONDS
from airflow_provider_mediaops.storage.local import discard_locally
from tests.unit.storage.dying import DeathError, Life
from tests.unit.storage.places import Place, StoppedError, attempt, local_place, owner, rows, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.storage.dataset import Dataset
    from airflow_provider_mediaops.storage.ownership import Owner

BATCHES = [rows(0), rows(2), [], rows(4, 3)]
ROWS = 7


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> Life:
    """The life of a process that works on a local disk."""
    life = Life(monkeypatch)
    life.of_files()
    return life


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return local_place(tmp_path)


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


def deaths(place: Place, life: Life, name: str = "d.jsonl") -> Iterator[tuple[int, int]]:
    """
    Let an attempt die at each step in turn, each time with nothing there before.

    Yields the step, and how many batches were committed by then.
    """
    for last in count():
        for each in place.names():
            place.remove(each)
        acknowledged: list[int] = []
        life.left, life.torn, has_died = last, False, True
        with suppress(DeathError):
            work(place.dataset(name), acknowledged)
            has_died = False
        life.left = None
        if not has_died:
            assert last >= 5
            return
        yield last, len(acknowledged)


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv"])
def test_whichever_step_is_the_last_a_cleared_task_goes_on_unless_it_had_published(
    mortal: tuple[Place, Life], name: str
) -> None:
    place, life = mortal
    for last, committed in deaths(place, life, name):
        has_published = name in place.names()
        assert place.dataset(name).published(owner(clears=1)) is None
        cleared = attempt(place.dataset(name), owner(clears=1), rows(7))
        if not has_published:
            assert cleared.summary["rows"] >= sum(map(len, BATCHES[:committed])) + len(rows(7)), last
        else:
            assert cleared.summary["rows"] in rows_after_publication(place), f"died at step {last}"
        assert place.names() == sorted([f".{name}.checkpoint", name]), f"died at step {last}"


def rows_after_publication(place: Place) -> tuple[int, ...]:
    """Return how many rows a cleared task may publish whose earlier attempt had published and died."""
    anew = len(rows(7))
    # On a store, a death between the upload and its receipt leaves it unknown who has published.
    return (anew, ROWS + anew) if "://" in place.prefix else (anew,)


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv"])
def test_nor_does_it_go_on_if_another_program_has_replaced_the_file_since(
    mortal: tuple[Place, Life], name: str
) -> None:
    place, life = mortal
    for last, _ in deaths(place, life, name):
        if name in place.names():
            place.write(name, b"of another program")
            cleared = attempt(place.dataset(name), owner(clears=1), rows(7))
            assert cleared.summary["rows"] in rows_after_publication(place), f"died at step {last}"


def test_nor_with_what_was_staged_after_that(here: Place, life: Life) -> None:
    for last, _ in deaths(here, life):
        if "d.jsonl" in here.names():
            here.write("d.jsonl", b"of another program")
            assert attempt(here.dataset(), owner(), rows(1), stop=True).resumed is False
            assert attempt(here.dataset(), owner(clears=1), rows(7)).resumed is False, f"died at step {last}"


def test_whichever_two_steps_are_the_last_a_cleared_task_loses_no_commit(here: Place, life: Life) -> None:
    most = 0
    for second in range(24):
        for first, committed in deaths(here, life):
            if "d.jsonl" in here.names():
                continue
            life.left, life.torn = second, False
            with suppress(DeathError):
                attempt(here.dataset(), owner(clears=1), rows(7))
            most = max(most, second - (life.left or 0))
            life.left = None
            if "d.jsonl" not in here.names():
                attempt(here.dataset(), owner(clears=2), rows(9))
            of_the_first = [row for batch in BATCHES[:committed] for row in batch]
            assert here.lines()[: len(of_the_first)] == of_the_first, f"died at steps {first} and {second}"
    # Otherwise the second one did not die at each of its steps.
    assert most < second


@pytest.mark.parametrize("is_discarded", [False, True], ids=["another run", "deletion"])
def test_an_attempt_that_never_published_is_not_taken_for_one_that_had(
    here: Place, life: Life, *, is_discarded: bool
) -> None:
    """Another run, or ``airflow mediaops leftovers``, removes what it was about to publish, and dies."""

    def work_of_another() -> None:
        if is_discarded:
            discard_locally(ObjectStoragePath(f"{here.prefix}/d.jsonl"), lambda: True)
        else:
            attempt(here.dataset(), owner("other"), rows(5))

    resumed = 0
    for second in range(12):
        for first in range(40):
            for each in here.names():
                here.remove(each)
            attempt(here.dataset(), owner("older"), rows(0))
            life.left, life.torn = first, False
            with suppress(DeathError):
                attempt(here.dataset(), owner(), rows(1))
            life.left, life.torn = second, False
            if here.lines() == rows(0):
                # Its file is no longer that of a receipt.
                here.write("d.jsonl", here.read("d.jsonl"))
                with suppress(DeathError):
                    work_of_another()
            life.left = None
            if here.lines() == rows(0):
                attempt(here.dataset(), owner(), rows(7), stop=True)
                cleared = attempt(here.dataset(), owner(clears=1), rows(9))
                assert cleared.resumed is True, f"died at steps {first} and {second}"
                resumed += 1
    assert resumed > 100


def test_a_publication_is_not_forgotten_if_another_attempt_dies_when_it_begins(here: Place, life: Life) -> None:
    found = 0
    for second in range(12):
        for first, _ in deaths(here, life):
            if "d.jsonl" not in here.names():
                continue
            life.left, life.torn = second, False
            with suppress(DeathError):
                attempt(here.dataset(), owner("other"), rows(9))
            life.left = None
            if len(here.lines()) == ROWS:
                assert here.dataset().published(owner()) is not None, f"died at steps {first} and {second}"
                found += 1
    assert found > 12


def waiting(place: Place, life: Life) -> Path:
    """Let an attempt die right before the last renaming; return the file that waits for it."""
    for _, committed in deaths(place, life):
        names = place.names()
        if committed == len(BATCHES) and not {"d.jsonl", ".d.jsonl.records"} & set(names):
            return Path(place.prefix, *(name for name in names if name.endswith(".part")))
    raise AssertionError


def test_the_file_that_waits_for_the_last_renaming_is_told_from_a_neighbours(here: Place, life: Life) -> None:
    waiting(here, life)
    for digit in "0f":
        here.write(f".d.jsonl.{digit * 16}.part", b"of a neighbour")

    assert attempt(here.dataset(), owner(clears=1), rows(7)).summary["rows"] == ROWS + len(rows(7))


def test_a_link_in_its_place_is_not_published(here: Place, life: Life) -> None:
    file = waiting(here, life)
    status = file.lstat()
    file.unlink()
    # With the size and the time by which it is known.
    file.symlink_to("x" * status.st_size)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)

    with pytest.raises(PermissionError, match="is a symbolic link"):
        here.dataset().published(owner())
    with pytest.raises(PermissionError, match="is a symbolic link"):
        attempt(here.dataset(), owner(clears=1), rows(7))
    assert here.visible() == []
