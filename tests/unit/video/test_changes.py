"""Two versions of a listing are compared by id and content; the older one and the changes make the newer one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.video.changes import VersionComparison

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def rows(comparison: VersionComparison) -> list[dict[str, Any]]:
    return [json.loads(change.line()) for change in comparison.changes()]


def replayed(old: Sequence[Record], changes: Sequence[dict[str, Any]]) -> dict[str, Record]:
    """Apply changes to records as a reader of the file would; each has to fit what is there."""
    records = {record["id"]: record for record in old}
    for row in changes:
        assert list(row) == ["change", "id", "before", "after"]
        assert records.get(row["id"]) == row["before"]
        assert (row["before"] is None, row["after"] is None) == (row["change"] == "added", row["change"] == "removed")
        if row["after"] is None:
            del records[row["id"]]
        else:
            records[row["id"]] = row["after"]
    return records


def test_each_change_has_the_record_before_and_after() -> None:
    old: list[Record] = [{"id": "b", "n": 1}, {"id": "a", "n": 1}, {"id": "c", "n": 1}]
    new: list[Record] = [{"id": "d", "n": 1}, {"id": "c", "n": 1}, {"id": "b", "n": 2}]
    comparison = compare(old, new)

    assert rows(comparison) == [
        {"change": "removed", "id": "a", "before": {"id": "a", "n": 1}, "after": None},
        {"change": "changed", "id": "b", "before": {"id": "b", "n": 1}, "after": {"id": "b", "n": 2}},
        {"change": "added", "id": "d", "before": None, "after": {"id": "d", "n": 1}},
    ]
    assert comparison.counts() == {"added": 1, "removed": 1, "changed": 1}


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


def test_the_gone_come_in_batches_in_the_order_of_the_changes() -> None:
    ids = [f"s{number:02}" for number in range(10)]
    comparison = compare([{"id": name} for name in reversed(ids)], [{"id": name} for name in ids[3:5]])

    first = comparison.gone(None, 4)
    assert list(first) == ["s00", "s01", "s02", "s05"]
    assert json.loads(first["s05"]) == {"id": "s05"}
    assert list(comparison.gone("s05", 4)) == ["s06", "s07", "s08", "s09"]
    assert comparison.gone("s09", 4) == {}


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

    assert replayed(old, changes) == {record["id"]: record for record in new}
    ids = [row["id"] for row in changes]
    assert ids == sorted(set(ids))
    counts = comparison.counts()
    assert [counts["added"], counts["removed"], counts["changed"]] == [
        sum(row["change"] == change for row in changes) for change in ("added", "removed", "changed")
    ]


@given(VERSION, st.randoms())
def test_nothing_changes_if_only_the_order_does(version: list[Record], chance: Any) -> None:
    shuffled = list(version)
    chance.shuffle(shuffled)

    assert rows(compare(version, shuffled)) == []
