"""Two versions of a listing are compared by id and content; the older one and the changes make the newer one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.video.changes import ExportChanges
from airflow_provider_mediaops.video.export import Export
from tests.unit.video.listings import replayed

Record = dict[str, Any]


OWNER = {"task": "dag/today/export/-1", "parameters": "digest"}
EXPORT = Export(owner=OWNER, destination="/out/a.jsonl", query={"mine": True}, changes="/out/changes.jsonl")


class Staged:
    """The staging of an export that replaces a version, with all of the newer one saved."""

    state, replaced, replaced_version = None, SimpleNamespace(owner=EXPORT.owned_by()), "1"

    def __init__(self, old: Sequence[Record], new: Sequence[Record]) -> None:
        self._old = old
        self._content = b"".join(json_line(record) + b"\n" for record in new)
        self.changes: Any = None

    def replaced_records(self) -> Iterator[str]:
        return (json_line(record).decode() for record in self._old)

    def lines(self, start: int) -> Iterator[bytes]:
        return iter(self._content[start:].split(b"\n")[:-1])

    def line(self, start: int, size: int) -> bytes:
        return self._content[start : start + size]


def compare(old: Sequence[Record], new: Sequence[Record]) -> tuple[dict[str, int], list[dict[str, Any]], list[str]]:
    """Return the numbers of the changes, the changes, and the warnings."""
    staging: Any = Staged(old, new)
    told: list[str] = []
    changes = ExportChanges(EXPORT, staging, told.append)
    summary = changes.finish()
    numbers = {name: summary[name] for name in ("added", "removed", "changed_records") if summary[name]}
    return numbers, [json.loads(line) for _, line in changes.changes()], told


def by_id(version: Sequence[Record]) -> dict[str, Record]:
    return {record["id"]: record for record in version}


def test_the_order_of_keys_is_no_content_and_an_etag_that_stays_hides_no_change() -> None:
    old: list[Record] = [{"id": "a", "etag": "1", "x": {"p": 1, "q": 2}}, {"id": "b", "etag": "1", "x": 1}]
    new: list[Record] = [{"x": {"q": 2, "p": 1}, "etag": "1", "id": "a"}, {"id": "b", "etag": "1", "x": 2}]

    assert [(row["change"], row["id"]) for row in compare(old, new)[1]] == [("changed", "b")]


def test_numbers_that_python_takes_for_the_same_are_different() -> None:
    for number in (True, 1.0):
        assert compare([{"id": "a", "n": 1}], [{"id": "a", "n": number}])[0] == {"changed_records": 1}


def test_records_without_an_id_are_counted_and_left_out() -> None:
    numbers, _, told = compare([{"n": 1}, {"id": 5}], [{"n": 2}, {"id": None}, {"id": ""}, {"id": "a"}])

    assert numbers == {"added": 1}
    assert told == ["3 records have no id, so the changes do not name them."]


# A lone surrogate is valid in JSON, and no UTF-8.
IDS = st.sampled_from(["", "a", "b", "ab", "é", "\U0001f600", "z", "\ud800"])
VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2))
VERSION = st.dictionaries(IDS.filter(bool), VALUES, max_size=7).map(
    lambda contents: [{"id": name, "value": value} for name, value in contents.items()]
)


@given(VERSION, VERSION)
def test_the_older_version_and_the_changes_make_the_newer_one(old: list[Record], new: list[Record]) -> None:
    numbers, changes, _ = compare(old, new)

    assert all(list(row) == ["change", "id", "before", "after"] for row in changes)
    assert replayed(by_id(old), changes) == by_id(new)
    ids = [row["id"] for row in changes]
    assert ids == sorted(set(ids))
    words = [row["change"].replace("changed", "changed_records") for row in changes]
    assert numbers == {word: words.count(word) for word in words}


@pytest.mark.long
@given(VERSION, st.randoms())
def test_nothing_changes_if_only_the_order_does(version: list[Record], chance: Any) -> None:
    shuffled = list(version)
    chance.shuffle(shuffled)

    assert compare(version, shuffled)[1] == []
