from __future__ import annotations

import gc
import tempfile
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.storage.seen_set import SeenSet
from tests.unit.full_disk import fill_the_disk

IN_MEMORY = 150_000


def open_files(folder: Path) -> int:
    """Return how many files of a folder are open in this process, deleted ones included."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        # The descriptor that lists the folder is closed by now.
        with suppress(OSError):
            count += descriptor.readlink().is_relative_to(folder)
    return count


@pytest.mark.parametrize("in_memory", [0, 10, IN_MEMORY])
@given(batches=st.lists(st.lists(st.text(st.characters(exclude_categories=()), max_size=3), max_size=30), max_size=20))
def test_set_says_what_is_new_as_a_set_does(in_memory: int, batches: list[list[str]]) -> None:
    seen, known = SeenSet(in_memory), set[str]()
    for batch in batches:
        expected = []
        for text in batch:
            expected.append(text not in known)
            known.add(text)
        assert seen.add(batch) == expected
    assert len(seen) == len(known)


@pytest.mark.parametrize("in_memory", [0, 1_000, IN_MEMORY, 1 << 30])
def test_set_grows(in_memory: int) -> None:
    seen = SeenSet(in_memory)
    texts = [f"UC-{number}" for number in range(100_000)]

    assert all(new for at in range(0, len(texts), 50) for new in seen.add(texts[at : at + 50]))
    assert not any(seen.add(reversed(texts)))
    assert seen.add(["UC-100000", "UC-0"]) == [True, False]
    assert len(seen) == 100_001


def test_many_texts_take_no_more_memory_than_some() -> None:
    seen = SeenSet(in_memory=1_000)
    tracemalloc.start()
    try:
        for at in range(0, 100_000, 50):
            seen.add([f"UC-{number}" for number in range(at, at + 50)])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 100,000 hashes in a set take 7 MB. SQLite's cache is bounded by itself.
    assert most < 400_000


def test_set_leaves_no_file_and_no_open_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen = SeenSet(in_memory=10)
    seen.add(map(str, range(1_000)))
    while_open = open_files(tmp_path)

    assert list(tmp_path.iterdir()) == []
    del seen
    gc.collect()
    assert (while_open, open_files(tmp_path)) == (1, 0)


def test_without_a_folder_for_temporary_files_it_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    seen = SeenSet(in_memory=10)
    texts = [f"UC-{number}" for number in range(1_000)]

    assert all(seen.add(texts))
    assert not any(seen.add(texts))


def test_a_full_disk_is_reported_with_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    fill_the_disk(monkeypatch)
    seen = SeenSet(in_memory=1)
    seen.add(["a", "b"])

    with pytest.raises(OSError, match=f"temporary files, {tempfile.gettempdir()}, .*: database or disk is full. Free"):
        seen.add(["c"])
