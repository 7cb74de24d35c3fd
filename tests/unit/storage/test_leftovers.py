"""What attempts leave that never come back: it is found, and deleted unless somebody may still need it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import DestinationInUseError, InvalidArgumentError, PermanentError
from airflow_provider_mediaops.storage.files import beside, path_of, write_whole
from airflow_provider_mediaops.storage.leftovers import local
from airflow_provider_mediaops.storage.leftovers import store as store_leftovers
from airflow_provider_mediaops.storage.leftovers.local import delete_locally, leftover_of
from airflow_provider_mediaops.storage.leftovers.search import delete_leftover, find_leftovers
from airflow_provider_mediaops.storage.local import discard_locally
from airflow_provider_mediaops.storage.object_store import ObjectStage
from tests.unit.storage.attempts import begin, die
from tests.unit.storage.places import Place, StoppedError, local_place, owner, rows, stopped, store_place

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.leftovers.model import Leftover
    from tests.unit.storage.conftest import Store

WEEK = 7 * 86_400.0
TASK = "dag/run/task/-1"


def unexpected(error: OSError) -> None:
    raise AssertionError from error


def give_up(place: Place, name: str = "d.jsonl", task: str = TASK) -> None:
    """Commit two records, and fail without another try."""
    with stopped(), place.dataset(name).staging(owner(task)) as staging:
        staging.commit(rows(1), "state")
        raise StoppedError


def publish(place: Place, name: str = "d.jsonl", first: int = 1) -> None:
    with place.dataset(name).staging(owner("dag/earlier/task/-1")) as staging:
        staging.commit(rows(first), None)


def age(place: Place, below: str = "") -> None:
    """Have the hidden files of a folder written at the time of the place, as a store does by itself."""
    if "://" not in place.prefix:
        for file in (Path(place.prefix) / below).glob(".*"):
            os.utime(file, (place.now, place.now))


def let_pass(place: Place, seconds: float) -> None:
    """Let all hidden files be as old as this."""
    age(place)
    place.now += seconds


def found(place: Place, path: str | None = None, older_than: float = WEEK) -> list[Leftover]:
    errors: list[OSError] = []
    listed = list(find_leftovers(path or f"{place.prefix}/", place.now, older_than, errors.append))
    assert not errors
    return sorted(listed, key=lambda leftover: leftover.destination)


def deleted(place: Place, path: str | None = None) -> list[str]:
    """Delete what may be deleted; give the destinations."""
    return [
        leftover.destination
        for leftover in found(place, path)
        if leftover.state == "left" and delete_leftover(leftover, place.now, WEEK)
    ]


def test_what_a_dead_task_has_left_is_found(place: Place) -> None:
    give_up(place)
    let_pass(place, WEEK)
    (leftover,) = found(place)
    assert leftover.destination == f"{place.prefix}/d.jsonl"
    assert (leftover.state, leftover.task, leftover.written) == ("left", TASK, place.now - WEEK)
    assert leftover.rows in {2, None}
    assert leftover.size > 0
    assert {file.rpartition("/")[2] for file in leftover.files} >= {".d.jsonl.checkpoint"}


def test_it_is_deleted_and_the_next_task_begins_anew(place: Place) -> None:
    give_up(place)
    let_pass(place, WEEK)
    assert deleted(place) == [f"{place.prefix}/d.jsonl"]
    assert found(place) == []
    with place.dataset().staging(owner()) as staging:
        assert not staging.resumed
        staging.commit(rows(5), None)
    assert [record["n"] for record in place.lines()] == [5, 6]
    assert place.visible() == ["d.jsonl"]


def test_on_the_local_disk_no_file_stays(tmp_path: Path) -> None:
    place = local_place(tmp_path)
    give_up(place)
    (tmp_path / ".d.jsonl.isbns.jsonl").write_text("{}\n")
    (tmp_path / ".d.jsonl.0123456789abcdef.part").write_text("half")
    let_pass(place, WEEK)
    assert deleted(place) == [f"{tmp_path}/d.jsonl"]
    assert place.names() == []


def test_what_is_published_stays_with_its_receipt(place: Place) -> None:
    publish(place)
    before = place.read("d.jsonl")
    give_up(place)
    let_pass(place, WEEK)
    assert deleted(place) == [f"{place.prefix}/d.jsonl"]
    assert place.read("d.jsonl") == before
    assert place.dataset().published(owner("dag/earlier/task/-1"))
    assert found(place) == []


def test_a_dataset_that_is_published_leaves_nothing(place: Place) -> None:
    publish(place)
    let_pass(place, 10 * WEEK)
    assert found(place) == []
    assert deleted(place) == []
    assert place.dataset().published(owner("dag/earlier/task/-1"))


def test_what_was_written_not_long_ago_is_kept(place: Place) -> None:
    give_up(place)
    let_pass(place, WEEK - 1)
    (leftover,) = found(place)
    assert leftover.state == "recent"
    # Nor is it deleted if somebody asks for it all the same.
    if "://" in place.prefix:
        assert not delete_leftover(leftover, place.now, WEEK)
    else:
        assert not delete_locally(leftover, place.now, WEEK)
    with place.dataset().staging(owner()) as staging:
        assert staging.resumed


def test_what_a_running_attempt_holds_is_kept(tmp_path: Path) -> None:
    place = local_place(tmp_path)
    give_up(place)
    let_pass(place, WEEK)
    (leftover,) = found(place)
    block, staging = begin(place)
    # It has resumed, and waits for its quota.
    let_pass(place, 10 * WEEK)
    assert [each.state for each in found(place)] == ["running"]
    with pytest.raises(DestinationInUseError, match=TASK):
        delete_leftover(leftover, place.now, WEEK)
    staging.commit(rows(3), None)
    block.__exit__(None, None, None)
    assert len(place.lines()) == 4


def test_a_lease_that_is_renewed_is_kept(bucket: Place) -> None:
    _, staging = begin(bucket)
    staging.commit(rows(1), None)
    let_pass(bucket, WEEK)
    staging.commit(rows(3), None)
    assert [each.state for each in found(bucket)] == ["recent"]


def test_an_attempt_that_begins_after_the_search_is_kept(place: Place) -> None:
    give_up(place)
    let_pass(place, WEEK)
    (leftover,) = found(place)
    give_up(place)
    let_pass(place, 60.0)
    assert not delete_leftover(leftover, place.now, WEEK)
    with place.dataset().staging(owner()) as staging:
        assert staging.resumed


def test_an_attempt_that_died_without_a_word_to_the_store(
    bucket: Place, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    die(monkeypatch, store, bucket, rows(1), rows(3))
    let_pass(bucket, 901.0)
    assert [each.state for each in found(bucket, older_than=900.0)] == ["left"]
    assert [each.state for each in found(bucket)] == ["recent"]
    let_pass(bucket, WEEK)
    assert deleted(bucket) == [f"{bucket.prefix}/d.jsonl"]
    assert bucket.names() == [".d.jsonl.checkpoint"]
    assert found(bucket) == []


def test_a_file_that_was_ready_but_not_published_is_left(tmp_path: Path) -> None:
    """An attempt that died right before its last step; the next one would have finished it."""
    place = local_place(tmp_path)
    publish(place)
    with pytest.MonkeyPatch.context() as patch, suppress(StoppedError):
        patch.setattr("airflow_provider_mediaops.storage.local.part_of", _stop)
        publish(place, first=5)
    let_pass(place, WEEK)
    assert [each.state for each in found(place)] == ["left"]
    assert deleted(place)
    assert [record["n"] for record in place.lines()] == [1, 2]
    assert place.dataset().published(owner("dag/earlier/task/-1"))


def _stop(*_: Any) -> Any:
    raise StoppedError


def test_folders_below_are_searched_and_one_destination_is_not(place: Place) -> None:
    for name in ("a/one.jsonl", "b/c/two.csv", "three.jsonl"):
        give_up(place, name)
        age(place, name.rpartition("/")[0])
    place.now += WEEK
    names = [leftover.destination.removeprefix(f"{place.prefix}/") for leftover in found(place)]
    assert names == ["a/one.jsonl", "b/c/two.csv", "three.jsonl"]
    (one,) = found(place, f"{place.prefix}/three.jsonl")
    assert one.destination == f"{place.prefix}/three.jsonl"
    assert found(place, f"{place.prefix}/four.jsonl") == []


def test_a_destination_whose_name_was_cut_is_deleted_by_its_name(place: Place) -> None:
    name = f"{'n' * 243}.jsonl"
    give_up(place, name)
    let_pass(place, WEEK)
    (leftover,) = found(place)
    assert (leftover.state, leftover.note) == (
        "unclear",
        "the name of the destination was cut: name the destination itself",
    )
    assert deleted(place, f"{place.prefix}/{name}") == [f"{place.prefix}/{name}"]
    assert found(place) == []


def test_files_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    names = {".d.records": "theirs", ".e.checkpoint": "theirs", ".f.checkpoint": "", "data.parts": "theirs"}
    for name, content in names.items():
        (tmp_path / name).write_text(content)
    (tmp_path / ".g.records").symlink_to(tmp_path / "data.parts")
    place = local_place(tmp_path)
    place.now += 10 * WEEK
    states = {leftover.destination: leftover.state for leftover in found(place)}
    assert states == {f"{tmp_path}/{name}": "unclear" for name in ("d", "e", "f")}
    assert all(leftover.note for leftover in found(place))


def test_objects_of_other_programs_are_left_alone(bucket: Place, store: Store) -> None:
    for name in (".d.checkpoint", ".e.parts/object", "top.parts/object"):
        store.pipe_file(f"/bucket/top/{name}", b"theirs")
    let_pass(bucket, WEEK)
    assert [(each.destination.rpartition("/")[2], each.state) for each in found(bucket)] == [
        ("d", "unclear"),
        ("e", "unclear"),
    ]


def test_what_another_version_has_staged_is_left_alone(place: Place) -> None:
    give_up(place)
    name = f"{place.prefix}/.d.jsonl.checkpoint"
    write_whole(path_of(name), place.read(".d.jsonl.checkpoint").replace(b'"version":', b'"version":9', 1))
    let_pass(place, WEEK)
    (leftover,) = found(place)
    assert leftover.state == "unclear"
    assert "Install the version that wrote it" in leftover.note
    with pytest.raises(PermanentError):
        place.dataset().check(owner())


def test_folders_that_a_client_lists_are_no_objects(
    bucket: Place, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """s3fs does: they have no time of a write."""
    give_up(bucket)
    let_pass(bucket, WEEK)
    find = store.find

    def find_with_folders(path: str, **options: Any) -> Any:
        listed = find(path, **options)
        folders = {name.rpartition("/")[0] for name in listed if ".parts/" in name}
        return {**listed, **{name: {"name": name, "size": 0, "type": "directory"} for name in folders}}

    monkeypatch.setattr(store, "find", find_with_folders)
    (leftover,) = found(bucket)
    assert (leftover.state, leftover.written) == ("left", bucket.now - WEEK)
    assert deleted(bucket) == [leftover.destination]
    assert found(bucket) == []


def test_a_store_that_does_not_say_when_it_was_written(store: Store) -> None:
    place = store_place(store)
    store.clock = None
    give_up(place)
    (leftover,) = found(place)
    assert (leftover.state, leftover.written) == ("unclear", None)
    assert "does not say" in leftover.note


def test_a_part_without_a_journal_is_deleted(place: Place) -> None:
    """A capture or a list whose process was killed while it wrote."""
    kind = "isbns.jsonl" if "://" in place.prefix else "0123456789abcdef.part"
    write_whole(path_of(f"{place.prefix}/{beside('spike.txt', kind)}"), b"half")
    let_pass(place, WEEK)
    assert deleted(place) == [f"{place.prefix}/spike.txt"]
    assert place.names() == []


def test_a_link_to_the_destination_leads_to_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    place = local_place(tmp_path / "real")
    give_up(place)
    let_pass(place, WEEK)
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real" / "d.jsonl")
    leftover = leftover_of(tmp_path / "link.jsonl", place.now, WEEK)
    assert leftover
    assert leftover.destination == f"{tmp_path}/real/d.jsonl"


def test_what_lies_beside_a_destination_that_became_a_link_is_left_alone(tmp_path: Path) -> None:
    """A task stages beside the file that the link leads to; what it has staged there is young, and stays."""
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
    place, other = local_place(tmp_path / "old"), local_place(tmp_path / "new")
    give_up(place)
    let_pass(place, WEEK)
    (before,) = found(place)
    other.now = place.now
    give_up(other)
    age(other)
    (tmp_path / "old" / "d.jsonl").symlink_to(tmp_path / "new" / "d.jsonl")
    (leftover,) = found(place)
    assert (leftover.state, leftover.note[:35]) == ("unclear", "the destination is a symbolic link ")
    # Also if it became one since it was found.
    assert not delete_leftover(before, place.now, WEEK)
    assert (place.names(), other.names()) == (
        [".d.jsonl.checkpoint", ".d.jsonl.records", "d.jsonl"],
        [".d.jsonl.checkpoint", ".d.jsonl.records"],
    )


def test_the_list_of_a_task_that_has_begun_since_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes its list when the lock under which the staged files were deleted is free again."""
    file = path_of(f"{place.prefix}/{beside('d.jsonl', 'isbns.jsonl')}")
    give_up(place)
    write_whole(file, b"old")
    let_pass(place, WEEK)

    class Begins(ObjectStage):
        def close(self) -> None:
            super().close()
            write_whole(file, b"new")

    def discard(*arguments: Any) -> bool:
        is_discarded = discard_locally(*arguments)
        write_whole(file, b"new")
        age(place)
        return is_discarded

    monkeypatch.setattr(local, "discard_locally", discard)
    monkeypatch.setattr(store_leftovers, "ObjectStage", Begins)
    deleted(place)
    assert place.read(file.name) == b"new"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="cannot be read"):
        list(find_leftovers(f"{tmp_path}/nowhere/d.jsonl", 0.0, WEEK, unexpected))


def test_a_store_that_refuses_is_named(bucket: Place, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(store, "find", refuse)
    with pytest.raises(OSError, match=r"memory://.* cannot be read: Access Denied"):
        found(bucket)


@pytest.mark.parametrize("path", [" ", "a\0b"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(InvalidArgumentError):
        list(find_leftovers(path, 0.0, WEEK, unexpected))
