"""Two versions of a listing are compared by id and content; the older one and the changes make the newer one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.video.changes import VersionComparison
from tests.unit.video.listings import replayed

Record = dict[str, Any]


def compare(old: Sequence[Record], new: Sequence[Record]) -> VersionComparison:
    lines = list(map(json_line, new))
    content = b"".join(line + b"\n" for line in lines)
    comparison = VersionComparison(lambda start, size: content[start : start + size])
    comparison.add_old(json_line(record).decode() for record in old)
    # In two steps, as before and after the second look.
    comparison.add_new(lines[: len(lines) // 2])
    comparison.gone(None, 1)
    comparison.add_new(lines[len(lines) // 2 :])
    return comparison


def by_id(version: Sequence[Record]) -> dict[str, Record]:
    return {record["id"]: record for record in version}


def rows(comparison: VersionComparison) -> list[dict[str, Any]]:
    return [json.loads(change.line()) for change in comparison.changes()]


def test_the_order_of_keys_is_no_content_and_an_etag_that_stays_hides_no_change() -> None:
    old: list[Record] = [{"id": "a", "etag": "1", "x": {"p": 1, "q": 2}}, {"id": "b", "etag": "1", "x": 1}]
    new: list[Record] = [{"x": {"q": 2, "p": 1}, "etag": "1", "id": "a"}, {"id": "b", "etag": "1", "x": 2}]

    assert [(row["change"], row["id"]) for row in rows(compare(old, new))] == [("changed", "b")]


def test_numbers_that_python_takes_for_the_same_are_different() -> None:
    assert compare([{"id": "a", "n": 1}], [{"id": "a", "n": True}]).counts() == {"changed": 1}
    assert compare([{"id": "a", "n": 1}], [{"id": "a", "n": 1.0}]).counts() == {"changed": 1}


def test_records_without_an_id_are_counted_and_left_out() -> None:
    comparison = compare([{"n": 1}, {"id": 5}], [{"n": 2}, {"id": None}, {"id": ""}, {"id": "a"}])

    assert comparison.unidentified == 3
    assert comparison.counts() == {"added": 1}


# A lone surrogate is valid in JSON, and no UTF-8.
IDS = st.sampled_from(["", "a", "b", "ab", "é", "\U0001f600", "z", "\ud800"])
VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2))
VERSION = st.dictionaries(IDS.filter(bool), VALUES, max_size=7).map(
    lambda contents: [{"id": name, "value": value} for name, value in contents.items()]
)


@given(VERSION, VERSION)
def test_the_older_version_and_the_changes_make_the_newer_one(old: list[Record], new: list[Record]) -> None:
    comparison = compare(old, new)
    changes = rows(comparison)

    assert all(list(row) == ["change", "id", "before", "after"] for row in changes)
    assert replayed(by_id(old), changes) == by_id(new)
    ids = [row["id"] for row in changes]
    assert ids == sorted(set(ids))
    counts = comparison.counts()
    assert [counts["added"], counts["removed"], counts["changed"]] == [
        sum(row["change"] == change for row in changes) for change in ("added", "removed", "changed")
    ]


@pytest.mark.long
@given(VERSION, st.randoms())
def test_nothing_changes_if_only_the_order_does(version: list[Record], chance: Any) -> None:
    shuffled = list(version)
    chance.shuffle(shuffled)

    assert rows(compare(version, shuffled)) == []
