from __future__ import annotations

import tempfile
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.storage.seen_set import FingerprintSet

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("in_memory", [1024, 1 << 18])
@given(batches=st.lists(st.lists(st.text(max_size=3), max_size=30), max_size=20))
def test_it_tells_what_is_new_as_a_set_does(in_memory: int, batches: list[list[str]]) -> None:
    fingerprints, known = FingerprintSet(in_memory), set[str]()
    for batch in batches:
        expected = []
        for text in batch:
            expected.append(text not in known)
            known.add(text)
        assert fingerprints.add(batch) == expected
    assert len(fingerprints) == len(known)


@pytest.mark.parametrize("in_memory", [1024, 1 << 18, 1 << 30])
def test_it_grows(in_memory: int) -> None:
    fingerprints = FingerprintSet(in_memory)
    texts = [f"UC-{number}" for number in range(200_000)]

    assert all(new for at in range(0, len(texts), 50) for new in fingerprints.add(texts[at : at + 50]))
    assert not any(fingerprints.add(reversed(texts)))
    assert fingerprints.add(["UC-200000", "UC-0"]) == [True, False]
    assert len(fingerprints) == 200_001


def test_many_texts_take_no_more_memory_than_some() -> None:
    fingerprints = FingerprintSet(in_memory=1024)
    tracemalloc.start()
    try:
        for at in range(0, 100_000, 50):
            fingerprints.add([f"UC-{number}" for number in range(at, at + 50)])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # What is in the file would be 2 MB.
    assert most < 200_000


def test_where_no_file_can_be_had_it_stays_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    fingerprints = FingerprintSet(in_memory=1024)
    texts = [f"UC-{number}" for number in range(10_000)]

    assert all(fingerprints.add(texts))
    assert not any(fingerprints.add(texts))


def test_a_text_whose_hash_is_0_is_like_any_other() -> None:
    # Python gives 0 to the empty text only.
    fingerprints = FingerprintSet()

    assert [*fingerprints.add([""]), *fingerprints.add(["", "a"])] == [True, False, True]
