"""A file that is published together with a dataset: both appear, or neither, wherever an attempt dies."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError, InvalidArgumentError
from airflow_provider_mediaops.storage.companion import CompanionFile, check_companion_path
from airflow_provider_mediaops.storage.leftovers.search import delete_leftover, find_leftovers
from tests.unit.storage.dying import DeathError, Life
from tests.unit.storage.places import Place, StoppedError, companion_of, local_place, owner, rows, stopped, store_place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_mediaops.storage.ownership import Owner
    from tests.unit.storage.conftest import Store

OLD, NEW = rows(0), rows(5, 3)
RECEIPT = ".d.jsonl.checkpoint"


def companion(place: Place, text: str, name: str = "changes/c.jsonl") -> CompanionFile:
    return companion_of(f"{place.prefix}/{name}", text)


def publish(
    place: Place, records: list[dict[str, Any]], who: Owner | None = None, text: str | None = None, **options: Any
) -> dict[str, Any]:
    """Do what a task does: return what it has published, or publish records with a companion that counts them."""
    who, name = who or owner(), options.pop("name", "d.jsonl")
    dataset = place.dataset(name, **options)
    summary = dataset.published(who)
    if summary is not None:
        return summary
    with dataset.staging(who) as staging:
        for record in records[staging.rows :]:
            staging.commit([record], None)
        staging.companion = companion(place, text or f"{len(records)} records")
    return staging.summary


def pair(place: Place) -> tuple[Any, str]:
    """Return the published records, and what their companion says."""
    return place.lines(), place.read("changes/c.jsonl").decode()


@pytest.fixture
def both(place: Place) -> Place:
    """Return a place of each kind in which an older task has published both files."""
    publish(place, OLD, owner("older/run/task/-1"))
    return place


def test_both_are_published_and_the_summary_names_the_companion(place: Place) -> None:
    summary = publish(place, NEW)

    assert pair(place) == (NEW, "3 records")
    path = f"{place.prefix}/changes/c.jsonl"
    assert summary == {"path": summary["path"], "rows": 3, "bytes": len(place.read("d.jsonl")), "changes": path}
    assert place.dataset().published(owner()) == summary
    hidden = [name for name in place.names() if name not in ("changes", "d.jsonl", "changes/c.jsonl")]
    assert hidden == [RECEIPT]


@pytest.mark.parametrize("name", ["d.csv", "d.parquet"])
def test_every_format_has_one(place: Place, name: str) -> None:
    publish(place, NEW, name=name)

    assert place.read("changes/c.jsonl") == b"3 records"


def test_a_failed_attempt_leaves_the_older_pair(both: Place) -> None:
    with stopped(), both.dataset().staging(owner()) as staging:
        staging.commit(NEW, None)
        staging.companion = companion(both, "never")
        raise StoppedError

    assert pair(both) == (OLD, "2 records")


def test_a_companion_that_cannot_be_written_leaves_the_older_pair(both: Place) -> None:
    def refuse(_: Path) -> None:
        raise OSError("no space left")

    def attempt() -> None:
        with both.dataset().staging(owner()) as staging:
            staging.commit(NEW, None)
            staging.companion = CompanionFile(f"{both.prefix}/changes/c.jsonl", "changes", refuse)

    with pytest.raises(OSError, match="no space left"):
        attempt()

    assert pair(both) == (OLD, "2 records")
    publish(both, NEW)
    assert pair(both) == (NEW, "3 records")
    assert not [name for name in both.names() if "companion" in name or "parts" in name]


def test_both_stay_if_the_content_is_the_same(place: Place) -> None:
    for number in (1, 2):
        with place.dataset().staging(owner(f"dag/run-{number}/task/-1")) as staging:
            staging.commit(OLD, None)
            staging.digest = "same"
            staging.companion = companion(place, f"of run {number}")

    assert pair(place) == (OLD, "of run 1")
    assert (staging.summary["changed"], staging.summary["changes"]) == (False, None)


def test_the_replaced_records_are_those_of_the_version_before(both: Place) -> None:
    with both.dataset().staging(owner()) as staging:
        assert staging.replaced is not None
        assert staging.replaced.owner.task == "older/run/task/-1"
        assert list(map(json.loads, staging.replaced_records())) == OLD
        staging.commit(NEW, None)
        assert [json.loads(line) for line in staging.lines()] == NEW
        first, *_ = staging.lines()
        assert [json.loads(line) for line in staging.lines(len(first) + 1)] == NEW[1:]
        assert staging.line(len(first) + 1, len(first)) == json.dumps(NEW[1], separators=(",", ":")).encode()


def test_a_version_that_is_replaced_while_it_is_read_is_not_compared_with(both: Place) -> None:
    def read() -> Iterator[str]:
        with both.dataset().staging(owner()) as staging:
            records = staging.replaced_records()
            yield next(records)
            both.remove("d.jsonl")
            yield from records

    with pytest.raises(DestinationInUseError, match="was replaced by another task or program"):
        list(read())


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.parquet"])
def test_a_pipe_that_takes_the_place_of_the_older_version_is_not_waited_at(tmp_path: Path, name: str) -> None:
    place = local_place(tmp_path)
    publish(place, OLD, owner("older/run/task/-1"), name=name)

    with stopped(), place.dataset(name).staging(owner()) as staging:
        place.remove(name)
        os.mkfifo(tmp_path / name)
        with pytest.raises(InvalidArgumentError, match=f"{name} is a named pipe"):
            next(staging.unverified_records())
        with pytest.raises(DestinationInUseError, match="was replaced by another task or program"):
            next(staging.replaced_records())
        raise StoppedError


def unexpected(error: OSError) -> None:
    raise AssertionError from error


def lives_and_deaths(place: Place, life: Life) -> Iterator[int]:
    """For each step of a publication, begin with an older pair and let an attempt die before that step."""
    step = 0
    while True:
        life.left = None
        for name in ("d.jsonl", "changes/c.jsonl", RECEIPT) if step else ():
            place.remove(name)
        publish(place, OLD, owner("older/run/task/-1"))
        life.left, life.torn = step, False
        try:
            publish(place, NEW)
        except DeathError:
            life.left = None
            yield step
        else:
            assert step > 12
            return
        step += 1


def is_settled(place: Place) -> bool:
    return [name for name in place.names() if name not in ("changes", "d.jsonl", "changes/c.jsonl")] == [RECEIPT]


def test_whichever_step_is_the_last_the_next_attempt_publishes_both(mortal: tuple[Place, Life]) -> None:
    place, life = mortal
    for step in lives_and_deaths(place, life):
        assert place.lines() in (OLD, NEW), step
        # A companion never comes before its dataset.
        assert place.read("changes/c.jsonl") == b"2 records" or place.lines() == NEW, step

        # The next attempt compares with what it finds, so it would write another text.
        was_published = place.lines() == NEW
        summary = publish(place, NEW, text="compared anew")
        assert summary["rows"] == len(NEW)
        assert place.lines() == NEW
        # On a local disk, the next attempt also finishes what was about to be published.
        anew = [] if was_published else [b"compared anew"]
        assert place.read("changes/c.jsonl") in [b"3 records", *anew], step
        assert is_settled(place), step


@pytest.mark.parametrize("another", [owner("another/run/task/-1"), owner(clears=1)], ids=["task", "clear"])
def test_whichever_step_is_the_last_another_owner_finds_both_or_neither(
    mortal: tuple[Place, Life], another: Owner
) -> None:
    place, life = mortal
    for step in lives_and_deaths(place, life):
        # Dead for so long that another task may write.
        place.now += 1000
        with stopped(), place.dataset().staging(another) as staging:
            assert staging.replaced is not None, step
            expected = {"older/run/task/-1": (OLD, "2 records"), "dag/run/task/-1": (NEW, "3 records")}
            assert pair(place) == expected[staging.replaced.owner.task], step
            assert list(map(json.loads, staging.replaced_records())) == pair(place)[0]
            raise StoppedError
        # The same task goes on after what its other attempt has committed.
        publish(place, NEW, another, text="of another")
        assert pair(place) == (NEW, "of another")
        assert is_settled(place), step


def test_what_a_summary_names_is_there_if_another_owner_has_died_since(mortal: tuple[Place, Life]) -> None:
    """It may have removed the companion, and not yet the receipt of what was about to be published."""
    place, life = mortal
    for second in range(12):
        for step in lives_and_deaths(place, life):
            place.now += 1000
            life.left, life.torn = second, False
            with suppress(DeathError):
                publish(place, OLD, owner("another/run/task/-1"), text="of another")
            life.left = None
            place.now += 1000
            summary = publish(place, NEW, text="compared anew")
            assert place.lines() == NEW, (step, second)
            assert summary["changes"], (step, second)
            assert place.read("changes/c.jsonl") in (b"3 records", b"compared anew"), (step, second)


def test_a_mending_that_dies_is_mended(mortal: tuple[Place, Life]) -> None:
    place, life = mortal
    mended = 0
    for step in lives_and_deaths(place, life):
        if pair(place) != (NEW, "2 records"):
            continue
        mended += 1
        for last in range(100):
            life.left, life.torn = last, False
            try:
                publish(place, NEW, text="compared anew")
            except DeathError:
                continue
            break
        life.left = None
        assert pair(place) == (NEW, "3 records"), step
        publish(place, NEW)
        assert is_settled(place), step
    assert mended


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("kind", ["local", "store"])
def test_what_is_left_of_a_dead_publication_is_found_and_deleted(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A dataset that was uploaded or renamed gets its companion; otherwise both are deleted."""
    place = local_place(tmp_path) if kind == "local" else store_place(store)
    life = Life(monkeypatch)
    life.of_files() if kind == "local" else life.of(store)
    place.now = time.time() if kind == "local" else place.now
    for step in lives_and_deaths(place, life):
        was_published = place.lines() == NEW
        later = place.now + 100_000
        listed = list(find_leftovers(f"{place.prefix}/", later, 90_000, unexpected))
        # A companion in a folder of its own is never deleted alone.
        for leftover in listed:
            if leftover.state == "left":
                # The journal is a file that is replaced, too.
                assert leftover.destination in {f"{place.prefix}/d.jsonl", f"{place.prefix}/{RECEIPT}"}, step
                place.now = later
                assert delete_leftover(leftover, later, 90_000), step
            else:
                assert leftover.note == "it goes with a dataset, and is deleted with what is left of that", step
        assert pair(place) == ((NEW, "3 records") if was_published else (OLD, "2 records")), step
        assert not list(tmp_path.rglob("*.companion")), step
        place.now = time.time() if kind == "local" else place.now


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/out/d.jsonl", "changes and destination are one file"),
        ("file:///out/d.jsonl", "changes and destination are one file"),
        ("/out/../out/d.jsonl", "changes and destination are one file"),
        ("/out/d.jsonl/changes.jsonl", "changes '.*' and destination '/out/d.jsonl' cannot both be files"),
        ("/out", "changes '/out' and destination '/out/d.jsonl' cannot both be files"),
        ("/out/.d.jsonl.checkpoint", "changes is a hidden file"),
        ("s3://one@bucket/c.jsonl", "changes '.*' is on another storage than the destination '/out/d.jsonl'"),
    ],
)
def test_a_path_that_cannot_be_published_together_is_refused(path: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_companion_path("changes", path, "/out/d.jsonl")


@pytest.mark.parametrize(
    ("path", "is_good"),
    [
        ("s3://b/e.jsonl", True),
        ("s3://one@other/e.jsonl", True),
        ("s3://two@b/e.jsonl", False),
        ("gs://one@b/e.jsonl", False),
        ("/out/e.jsonl", False),
    ],
)
def test_both_need_one_storage_and_one_connection(path: str, *, is_good: bool) -> None:
    if is_good:
        check_companion_path("changes", path, "s3://one@b/d.jsonl")
    else:
        with pytest.raises(InvalidArgumentError, match="is on another storage"):
            check_companion_path("changes", path, "s3://one@b/d.jsonl")
