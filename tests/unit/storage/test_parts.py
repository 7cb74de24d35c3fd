"""Names and contents of parts."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.storage.parts import Part, content_of, in_turns, read_content
from airflow_provider_mediaops.storage.records import Extent

BEFORE = Extent().grown(b'{"n":1}\n', 1)
DATA = b'{"n":2}\n{"n":3}\n'
AFTER = BEFORE.grown(DATA, 2)
MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (Part(12, 12, "abcd", 0, 1_800_000_000), "00000012-00000012.abcd-after-0.1800000000"),
        (Part(65, 128, "00ff", 64, 1_800_000_000), "00000065-00000128.00ff-after-64.1800000000"),
        (Part(1, 123_456_789, "a", 0, 0), "00000001-123456789.a-after-0.0"),
    ],
)
def test_a_part_survives_its_name(part: Part, name: str) -> None:
    assert part.name == name
    assert Part.of(name) == part


@pytest.mark.parametrize(
    "name",
    [
        "",
        "note.txt",
        "00000012.abcd.1800000000",
        "12-12.abcd-after-0.1",
        "00000012-00000011.abcd-after-0.1",
        "00000012-00000012.abcd-after-12.1",
        "00000000-00000001.abcd-after-0.1",
        "00000012-00000012.abcd-after-0.1.tmp",
        "00000012-00000012.abcd-after-0.\u0661",
    ],
)
def test_other_names_are_of_no_part(name: str) -> None:
    assert Part.of(name) is None


@pytest.mark.parametrize(
    "state", [None, {"token": "T", "deep": [1, None]}, "line\nbreak", {"half": "\ud800"}, {"n": math.inf}, 2**70]
)
def test_content_survives(state: Any) -> None:
    assert read_content(content_of(AFTER, state, DATA), BEFORE) == (AFTER, state, DATA)


def test_a_state_needs_no_records() -> None:
    assert read_content(content_of(BEFORE, 7, b""), BEFORE) == (BEFORE, 7, b"")


def test_a_part_that_is_not_whole_is_none() -> None:
    content = content_of(AFTER, {"a": 1}, DATA)

    assert [read_content(content[:length], BEFORE) for length in range(len(content))] == [None] * len(content)
    assert read_content(content + b"\n", BEFORE) is None
    assert read_content(content.replace(b'"n":3', b'"n":4'), BEFORE) is None


@pytest.mark.parametrize(
    "content", [b"\n", b"[]\n", b"{}\n", b'{"extent":{"size":1}}\n', b'{"extent":{"x":1}}\n', b"\xff\n"]
)
def test_what_is_something_else_is_none(content: bytes) -> None:
    assert read_content(content, Extent()) is None


@pytest.mark.parametrize("before", [Extent(), Extent(8, 1, 0), Extent().grown(b'{"n":7}\n', 1), AFTER])
def test_a_part_that_follows_other_records_is_none(before: Extent) -> None:
    assert read_content(content_of(AFTER, None, DATA), before) is None


@given(st.lists(st.sampled_from([0, 1000, MIB, 5 * MIB, 16 * MIB, 40 * MIB]), max_size=300))
def test_parts_are_read_a_hundred_or_16_mib_at_a_time(sizes: list[int]) -> None:
    parts = {Part(number, number, "a", 0, 0): size for number, size in enumerate(sizes, 1)}
    turns = list(in_turns(parts, parts))

    assert [part for turn in turns for part in turn] == list(parts)
    for turn in turns:
        assert len(turn) == 1 or (len(turn) <= 100 and sum(parts[part] for part in turn) <= 16 * MIB)
    for turn, after in pairwise(turns):
        assert len(turn) == 100 or sum(parts[part] for part in [*turn, after[0]]) > 16 * MIB
