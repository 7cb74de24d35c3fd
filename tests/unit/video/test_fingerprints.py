from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.video.fingerprints import FingerprintSet


@given(st.lists(st.lists(st.text(max_size=3), max_size=30), max_size=20))
def test_it_tells_what_is_new_as_a_set_does(batches: list[list[str]]) -> None:
    fingerprints, known = FingerprintSet(), set[str]()
    for batch in batches:
        expected = []
        for text in batch:
            expected.append(text not in known)
            known.add(text)
        assert fingerprints.add(batch) == expected
    assert len(fingerprints) == len(known)


def test_it_grows() -> None:
    fingerprints = FingerprintSet()
    texts = [f"UC-{number}" for number in range(400_000)]

    assert all(fingerprints.add(texts))
    assert not any(fingerprints.add(reversed(texts)))
    assert fingerprints.add(["UC-400000", "UC-0"]) == [True, False]
    assert len(fingerprints) == 400_001


def test_a_text_whose_hash_is_0_is_like_any_other() -> None:
    # Python gives 0 to the empty text only.
    fingerprints = FingerprintSet()

    assert [*fingerprints.add([""]), *fingerprints.add(["", "a"])] == [True, False, True]
