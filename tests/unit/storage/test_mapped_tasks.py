"""A file that two instances of one mapped task would write is refused; every other writer may replace it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage import ownership
from airflow_provider_mediaops.storage.files import write_whole
from airflow_provider_mediaops.storage.ownership import Owner, refuse_shared_destination

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

    from tests.unit.storage.conftest import Store


def owner(index: int, *, run: str = "r1", task: str = "t", clears: int = 0, start: str = "10:00") -> Owner:
    return Owner(f"d/{run}/{task}/{index}", f"parameters of {index}", clears, start)


@pytest.fixture(params=["local", "store"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "hot")
    request.getfixturevalue("store")
    return "memory://shelf@bucket/hot"


def claim(file: str, by: Owner) -> None:
    refuse_shared_destination(file, by, "capture")


def test_the_second_of_two_map_indexes_is_refused_with_the_correction(file: str) -> None:
    claim(file, owner(0))
    with pytest.raises(PermanentError, match=r"hot is the capture of d/r1/t/0, .*\{\{ ti\.map_index \}\}"):
        claim(file, owner(1))
    # It is refused again when it is tried again, and so is the first, whose files were at stake.
    with pytest.raises(PermanentError):
        claim(file, owner(1))


def test_second_map_index_is_refused_by_a_client_that_has_listed_the_folder_before(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim("memory://shelf@bucket/hot", owner(0))
    real, cached = store.ls, [list[str]()]
    monkeypatch.setattr(store, "ls", lambda path, **options: cached[0] if cached else real(path, **options))
    monkeypatch.setattr(store, "invalidate_cache", cached.clear)

    with pytest.raises(PermanentError, match="is the capture of d/r1/t/0"):
        claim("memory://shelf@bucket/hot", owner(1))


@pytest.mark.parametrize(
    "later",
    [
        owner(0),
        owner(1, run="r2"),
        owner(1, task="another"),
        # The run, or the whole of the mapped task, was cleared: both are new attempts.
        owner(1, clears=1),
        owner(1, start="11:00"),
    ],
)
def test_retry_another_run_task_or_clear_may_replace_it(file: str, later: Owner) -> None:
    claim(file, owner(0))
    claim(file, later)


def test_a_task_that_is_not_mapped_leaves_no_record(tmp_path: Path) -> None:
    claim(str(tmp_path / "hot"), owner(-1))
    claim(str(tmp_path / "hot"), Owner("no task (0123)", ""))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", "\0", '{"task": 1}', '{"task": 1, "parameters": "p"}', '{"task": "d/r1/t/1"}']
)
def test_a_record_that_is_none_is_ignored(tmp_path: Path, content: str) -> None:
    claim(str(tmp_path / "hot"), owner(0))
    (record,) = (path for path in tmp_path.rglob("*") if path.is_file())
    record.with_name("1").write_text(content)
    claim(str(tmp_path / "hot"), owner(0))


def test_of_two_that_begin_together_at_least_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Both have written their record before either reads those of others: the latest moment at which one could miss.
    both = threading.Barrier(2, timeout=240)

    def write_and_wait(path: ObjectStoragePath, data: bytes) -> None:
        write_whole(path, data)
        both.wait()

    monkeypatch.setattr(ownership, "write_whole", write_and_wait)
    with ThreadPoolExecutor(2) as pool:
        ended = [pool.submit(claim, str(tmp_path / "hot"), owner(index)) for index in range(2)]
        assert [type(each.exception()) for each in ended] == [PermanentError, PermanentError]
