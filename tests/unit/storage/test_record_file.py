"""A record that several tasks read and replace: of two that have read the same, one at most writes."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage.files import path_of
from airflow_provider_mediaops.storage.leftovers.search import delete_leftover, find_leftovers
from airflow_provider_mediaops.storage.record_file import MAX_RECORD_BYTES, record_file
from airflow_provider_mediaops.storage.store_objects import ConflictError, Found
from tests.unit.storage.attached import attached
from tests.unit.storage.conftest import Store
from tests.unit.storage.dying import DeathError, Life
from tests.unit.storage.fake_store import CreationOnly
from tests.unit.storage.places import START, Place, local_place, store_place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_mediaops.storage.record_file import RecordFile

NAME = "key.json"
NOTHING = Found()


class CreationStore(CreationOnly, Store):
    """A store that checks creation alone."""


@pytest.fixture
def creating() -> Iterator[CreationStore]:
    store = CreationStore()
    store.check_conditions(conditional=False)
    with attached(store, "shelf"):
        yield store


@pytest.fixture(params=["local", "store", "store that checks creation"])
def where(request: pytest.FixtureRequest) -> Place:
    """Return a place of each kind that can keep records."""
    if request.param == "local":
        return local_place(request.getfixturevalue("tmp_path"))
    return store_place(request.getfixturevalue("store" if request.param == "store" else "creating"))


@pytest.fixture(params=["local", "store"])
def strict(request: pytest.FixtureRequest) -> Place:
    """Return a place of each kind that checks each write."""
    if request.param == "local":
        return local_place(request.getfixturevalue("tmp_path"))
    return store_place(request.getfixturevalue("store"))


def record_at(place: Place) -> RecordFile:
    return record_file(path_of(f"{place.prefix}/{NAME}"))


def test_what_was_written_is_read(where: Place) -> None:
    file = record_at(where)
    assert file.read().content is None

    file.write(b"one", NOTHING)
    assert record_at(where).read().content == b"one"
    file.write(b"two", file.read())

    assert record_at(where).read().content == b"two"
    assert where.names() == [NAME]


def test_it_is_created_once(where: Place) -> None:
    record_at(where).write(b"one", NOTHING)
    with pytest.raises(ConflictError):
        record_at(where).write(b"two", NOTHING)

    assert where.read(NAME) == b"one"
    assert where.names() == [NAME]


@pytest.mark.parametrize("since", ["replaced", "removed"])
def test_what_another_has_written_since_is_not_replaced(strict: Place, since: str) -> None:
    file = record_at(strict)
    file.write(b"one", NOTHING)
    found = file.read()
    if since == "replaced":
        file.write(b"two", found)
    else:
        strict.remove(NAME)
    left = strict.names(), [strict.read(name) for name in strict.names()]

    with pytest.raises(ConflictError):
        file.write(b"three", found)

    assert (strict.names(), [strict.read(name) for name in strict.names()]) == left


def test_what_another_has_written_since_is_not_removed(where: Place) -> None:
    file = record_at(where)
    file.write(b"one", NOTHING)
    found = file.read()
    file.write(b"two", found)

    with pytest.raises(ConflictError):
        file.remove(found)

    assert where.read(NAME) == b"two"


def test_what_was_removed_can_be_created_again(where: Place) -> None:
    file = record_at(where)
    file.write(b"one", NOTHING)
    file.remove(file.read())
    assert where.names() == []

    file.write(b"two", NOTHING)
    assert where.read(NAME) == b"two"


def test_it_is_bounded(where: Place) -> None:
    file = record_at(where)
    with pytest.raises(OSError, match=r"key\.json cannot be written: it is larger than 1,048,576 bytes"):
        file.write(b"x" * (MAX_RECORD_BYTES + 1), NOTHING)
    assert where.names() == []

    file.write(b"x" * MAX_RECORD_BYTES, NOTHING)
    assert len(file.read().content or b"") == MAX_RECORD_BYTES


def test_the_rest_of_a_large_object_is_not_read(store: Store) -> None:
    place = store_place(store)
    store.pipe_file(f"/bucket/top/{NAME}", b"x" * (MAX_RECORD_BYTES + 5))

    assert len(record_at(place).read().content or b"") == MAX_RECORD_BYTES


def test_the_rest_of_a_large_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"x" * (MAX_RECORD_BYTES + 5))

    assert len(record_at(local_place(tmp_path)).read().content or b"") == MAX_RECORD_BYTES


def test_its_age_is_that_of_the_last_write_by_the_stores_clock(store: Store) -> None:
    place = store_place(store)
    file = record_at(place)
    file.write(b"one", NOTHING)
    place.now = START + 60

    assert file.age_seconds(file.read()) == 60
    assert place.names() == [NAME]


def test_its_age_is_that_of_the_last_write_on_the_disk(tmp_path: Path) -> None:
    file = record_at(local_place(tmp_path))
    file.write(b"one", NOTHING)
    status = (tmp_path / NAME).stat()
    os.utime(tmp_path / NAME, (status.st_mtime - 3600, status.st_mtime - 3600))

    age = file.age_seconds(file.read())

    assert age is not None
    assert 3600 <= age < 3600 + 240
    assert local_place(tmp_path).names() == [NAME]


def test_a_store_without_a_clock_says_no_age(store: Store) -> None:
    place = store_place(store)
    store.clock = None
    file = record_at(place)
    file.write(b"one", NOTHING)

    assert file.age_seconds(file.read()) is None


class TestAStoreThatChecksNothing:
    def test_one_whose_client_knows_no_conditions_is_refused_before_anything_is_written(self, store: Store) -> None:
        store.check_conditions(conditional=False)
        with pytest.raises(PermanentError, match=r"key\.json cannot be kept: .* Choose a folder on S3"):
            record_at(store_place(store))

        assert store.names == []

    def test_one_that_ignores_conditions_is_found_out(self, store: Store) -> None:
        # The client sends them, and the server writes all the same.
        store.conditional = False
        with pytest.raises(PermanentError, match=r"does not refuse to create a file that is there"):
            record_at(store_place(store)).write(b"one", NOTHING)


class TestOnTheDisk:
    @pytest.mark.parametrize("trick", ["link", "dangling link", "pipe", "folder"])
    def test_what_is_no_file_of_ours_is_neither_read_nor_replaced(self, tmp_path: Path, trick: str) -> None:
        outside, file = tmp_path / "outside", tmp_path / "journal" / NAME
        file.parent.mkdir()
        if trick == "link":
            outside.write_bytes(b"precious")
        if "link" in trick:
            file.symlink_to(outside)
        elif trick == "pipe":
            os.mkfifo(file)
        else:
            file.mkdir()
        record = record_at(local_place(file.parent))

        with pytest.raises(OSError, match="cannot be read"):
            record.read()
        with suppress(ConflictError), pytest.raises(OSError, match="cannot be written"):
            record.write(b"one", Found(b"precious"))
        assert not outside.exists() or outside.read_bytes() == b"precious"

    def test_a_folder_that_is_a_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "journal").write_bytes(b"")
        with pytest.raises(OSError, match=r"journal/key\.json cannot be written"):
            record_at(local_place(tmp_path / "journal"))

    def test_one_that_is_being_replaced_is_left_to_the_other(self, tmp_path: Path) -> None:
        file = record_at(local_place(tmp_path))
        file.write(b"one", NOTHING)
        with (tmp_path / NAME).open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(ConflictError):
                file.write(b"two", Found(b"one"))

        assert (tmp_path / NAME).read_bytes() == b"one"

    @pytest.mark.parametrize("before", [None, b"before"])
    def test_of_many_at_a_time_one_writes(self, tmp_path: Path, before: bytes | None) -> None:
        place, count = local_place(tmp_path), 8
        if before:
            record_at(place).write(before, NOTHING)
        found = record_at(place).read()
        barrier, winners = threading.Barrier(count), []

        def race(number: int) -> None:
            file = record_at(place)
            barrier.wait(240)
            with suppress(ConflictError):
                file.write(b"%d" % number, found)
                winners.append(number)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [b"%d" % number for number in winners] == [place.read(NAME)]
        assert place.names() == [NAME]

    @pytest.mark.parametrize("before", [None, b"before"])
    def test_one_that_dies_leaves_the_old_or_the_new(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None
    ) -> None:
        life, seen = Life(monkeypatch), set()
        life.of_files()
        content = json.dumps({"new": "x" * 100}).encode()
        for steps in range(100):
            place = local_place(tmp_path / str(steps))
            if before:
                record_at(place).write(before, NOTHING)
            file = record_at(place)
            found = file.read()
            life.left = steps
            died = True
            with suppress(DeathError):
                file.write(content, found)
                died = False
            life.left = None
            seen.add(record_at(place).read().content)
            if not died:
                break
        assert not died
        assert seen == {before, content}

    def test_a_file_that_was_not_linked_is_a_leftover_and_a_record_is_none(self, tmp_path: Path) -> None:
        record_at(local_place(tmp_path)).write(b"one", NOTHING)
        (tmp_path / f".{NAME}.0123456789abcdef.part").write_bytes(b"half")
        later = (tmp_path / NAME).stat().st_mtime + 3600

        [found] = find_leftovers(str(tmp_path), later, 900, _fail)
        assert delete_leftover(found, later, 900)

        assert local_place(tmp_path).names() == [NAME]

    def test_no_record_is_a_leftover_in_a_store(self, store: Store) -> None:
        place = store_place(store)
        record_at(place).write(b"one", NOTHING)

        assert list(find_leftovers(f"{place.prefix}/", START + 3600, 900, _fail)) == []


def _fail(error: OSError) -> None:
    raise error
