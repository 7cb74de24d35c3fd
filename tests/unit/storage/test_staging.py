"""Checkpointed datasets, the same on the local disk and on an object store."""

from __future__ import annotations

import csv
import io
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_mediaops.exceptions import DestinationReplacedError, PermanentError
from airflow_provider_mediaops.storage.formats import FORMATS
from airflow_provider_mediaops.storage.local import LocalBackend
from airflow_provider_mediaops.storage.object_store import StoreBackend
from tests.unit.storage.places import Place, StoppedError, attempt, local_place, owner, rows, stopped

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.dataset import Staging
    from airflow_provider_mediaops.storage.ownership import Owner
    from tests.unit.storage.fake_store import FakeStore

OLD, NEW = rows(0), rows(5, 3)
MANIFEST = ".d.jsonl.staging/manifest.json"


#: What an attempt finds that begins anew.
NOTHING: Any = (False, 0, None, [])


def found_in(staging: Staging) -> tuple[bool, int, Any, list[Any]]:
    """Return whether an earlier attempt is resumed, and the rows, the state and the records so far."""
    return staging.resumed, staging.rows, staging.state, list(staging.records())


def test_commits_are_published_when_the_block_ends(place: Place) -> None:
    with place.dataset().staging(owner()) as staging:
        assert found_in(staging) == NOTHING
        staging.commit(rows(0), {"token": "T1"})
        staging.commit([], ["any", 1, None])
        staging.commit(rows(2), {"token": None})
        assert found_in(staging) == (False, 4, {"token": None}, rows(0, 4))
        assert place.visible() == []
        staging.summary["pages"] = 3

    assert place.lines() == rows(0, 4)
    size = len(place.read("d.jsonl"))
    assert staging.summary == {"path": f"{place.prefix}/d.jsonl", "rows": 4, "pages": 3, "bytes": size}
    assert place.visible() == ["d.jsonl"]
    assert place.is_settled()


@pytest.mark.parametrize(("batches", "state"), [([rows(0), rows(2)], {"batch": 2}), ([[]], {"batch": 0})])
def test_next_attempt_goes_on_where_the_last_commit_left_off(place: Place, batches: list[Any], state: Any) -> None:
    attempt(place.dataset(), owner(), *batches, stop=True)
    committed = [row for batch in batches for row in batch]
    assert place.visible() == []

    with place.dataset().staging(owner()) as staging:
        assert found_in(staging) == (True, len(committed), state, committed)
        staging.commit(rows(9), None)

    assert place.lines() == [*committed, *rows(9)]
    assert place.visible() == ["d.jsonl"]
    assert place.is_settled()


def test_discarded_records_are_in_no_dataset_and_those_since_are(place: Place) -> None:
    attempt(place.dataset(), owner(), rows(0), rows(2), stop=True)
    with stopped(), place.dataset().staging(owner()) as staging:
        staging.commit(rows(4), {"batch": 4})
        staging.flush()
        staging.discard()
        assert found_in(staging) == NOTHING
        raise StoppedError
    with stopped(), place.dataset().staging(owner()) as staging:
        assert found_in(staging) == NOTHING
        staging.commit(rows(7), {"batch": 1})
        raise StoppedError

    with place.dataset().staging(owner()) as staging:
        assert found_in(staging) == (True, 2, {"batch": 1}, rows(7))

    assert place.lines() == rows(7)
    assert place.is_settled()


@pytest.mark.parametrize("format_", FORMATS)
def test_file_is_made_of_all_attempts_and_replaces_an_older_one(place: Place, format_: str) -> None:
    name = f"d.{format_}"
    attempt(place.dataset(name), owner("old"), rows(7))
    older = place.read(name)
    attempt(place.dataset(name), owner(), rows(0), stop=True)
    assert place.read(name) == older

    summary = attempt(place.dataset(name), owner(), rows(2)).summary
    content = place.read(name)
    assert summary["bytes"] == len(content)
    assert place.visible() == [name]
    assert place.is_settled(name)
    if format_ == "parquet":
        found = pq.read_table(io.BytesIO(content)).to_pylist()
    elif format_ == "csv":
        found = [{**row, "n": int(row["n"])} for row in csv.DictReader(io.StringIO(content.decode()))]
    else:
        found = place.lines()
    assert found == rows(0, 4)


@pytest.mark.parametrize("other", [owner("dag/tomorrow/task/-1"), owner(parameters="others")])
def test_another_run_or_other_parameters_start_anew(place: Place, other: Owner) -> None:
    attempt(place.dataset(), owner(), rows(0), rows(2), stop=True)

    with place.dataset().staging(other) as staging:
        assert found_in(staging) == NOTHING
        staging.commit(rows(7), None)

    assert place.lines() == rows(7)
    assert place.visible() == ["d.jsonl"]


def test_a_mapped_task_does_not_write_over_what_one_beside_it_has_published(place: Place) -> None:
    attempt(place.dataset(), owner("dag/run/task/0"), rows(0))

    with pytest.raises(PermanentError, match=r"d\.jsonl is the dataset of dag/run/task/0, .*ti\.map_index"):
        attempt(place.dataset(), owner("dag/run/task/1", "other"), rows(9))

    assert place.lines() == rows(0)
    assert place.dataset().published(owner("dag/run/task/0"))


def publish(
    place: Place, records: list[dict[str, Any]], who: Owner, *, name: str = "d.jsonl", **given: Any
) -> dict[str, Any]:
    """Publish records, and changes that count them if their path is given; return the summary."""
    digest = given.pop("digest", None)
    with place.dataset(name, **given).staging(who) as staging:
        staging.commit(records, None)
        staging.digest = digest
        if given:
            staging.changes = lambda file: _write(file, f"{len(records)} records")
    return staging.summary


def _write(file: Path, text: str) -> None:
    file.write_text(text)


class TestDigest:
    @pytest.mark.parametrize("format_", FORMATS)
    def test_same_content_leaves_the_file_as_it_is_and_makes_it_the_latest_tasks(
        self, place: Place, format_: str
    ) -> None:
        name = f"d.{format_}"
        first = publish(place, rows(0), owner("first"), name=name, digest="same")
        attempt(place.dataset(name), owner("fails"), rows(0), stop=True)
        content = place.read(name)
        second = publish(place, rows(2), owner("mine"), name=name, digest="same")

        assert (first["changed"], second["changed"]) == (True, False)
        assert {**second, "changed": True} == first
        assert place.read(name) == content
        assert place.visible() == [name]
        assert place.dataset(name).published(owner("mine")) == second

    def test_other_content_other_parameters_and_a_file_of_another_origin_are_replaced(self, place: Place) -> None:
        publish(place, rows(0), owner("a", "p"), digest="one")
        assert publish(place, rows(2), owner("b", "p"), digest="two")["changed"] is True
        assert place.lines() == rows(2)
        assert publish(place, rows(0), owner("c", "q"), digest="two")["changed"] is True

        place.write("d.jsonl", b"of another program")
        assert publish(place, rows(0), owner("d", "q"), digest="two")["changed"] is True
        assert place.lines() == rows(0)
        place.remove("d.jsonl")
        assert publish(place, rows(0), owner("e", "q"), digest="two")["changed"] is True
        publish(place, rows(0), owner("f", "q"))
        assert publish(place, rows(0), owner("g", "q"), digest="two")["changed"] is True


def plant(place: Place, claim: str, fields: dict[str, Any]) -> str:
    """Write a frame without records whose header has such fields; return the name of its file."""
    header = {"version": 1, "number": 0, "kind": "rows", "rows": 1, "data": 1, "size": 0, "before": None, **fields}
    text = json.dumps(header).encode()
    segment = "" if place.prefix.startswith("/") else "-000000"
    name = f".d.jsonl.staging/{owner().folder}/{claim}{segment}"
    place.write(name, b"%08x %b\n7" % (zlib.crc32(b"7", zlib.crc32(text)), text))
    return name


class TestPublished:
    def test_task_instance_finds_what_it_has_published_until_it_is_cleared(self, place: Place) -> None:
        assert place.dataset().published(owner()) is None
        assert place.names() == []
        attempt(place.dataset(), owner(), rows(0), stop=True)
        assert place.dataset().published(owner()) is None

        summary = attempt(place.dataset(), owner()).summary
        assert [place.dataset().published(owner()) for _ in range(2)] == [summary, summary]
        assert place.dataset("another.jsonl").published(owner()) is None
        cleared = [owner(clears=1), owner(run_start="2026-11-24T12:00:00")]
        for other in (owner("other"), owner(parameters="others"), *cleared):
            assert place.dataset().published(other) is None

        place.remove("d.jsonl")
        assert place.dataset().published(owner()) == summary

    def test_a_file_of_equal_size_that_another_program_has_written_is_not_ours(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def die(*_: Any) -> None:
            raise StoppedError

        with monkeypatch.context() as patch, stopped():
            for backend in (LocalBackend, StoreBackend):
                patch.setattr(backend, "publish", die)
            attempt(place.dataset(), owner(), rows(0))
        content = b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows(0))
        place.write("d.jsonl", b"?" * len(content))

        assert place.dataset().published(owner()) is None
        assert attempt(place.dataset(), owner()).summary["bytes"] == len(content)
        assert place.read("d.jsonl") == content

    @pytest.mark.parametrize(
        "damaged",
        [b"", b"[]", b"7", b"{}", b'{"owner":1}', b'{"owner":{"task":["a"]},"fingerprint":"","file":["1",1]}'],
    )
    def test_a_manifest_that_somebody_has_damaged_describes_no_file(self, place: Place, damaged: bytes) -> None:
        attempt(place.dataset(), owner("old"), rows(0))
        place.write(MANIFEST, damaged)

        with stopped(), place.dataset().staging(owner()) as staging:
            assert staging.replaced is None
            assert staging.replaced_version
            raise StoppedError

    def test_a_last_frame_that_somebody_has_damaged_tells_of_nothing(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0))
        [name] = [each for each in place.names() if each.endswith("-last")]
        place.write(name, place.read(name).replace(b'"rows":2', b'"rows":7'))

        assert place.dataset().published(owner()) is None
        assert attempt(place.dataset(), owner(), rows(5)).summary["rows"] == 2
        assert place.lines() == rows(5)

    @pytest.mark.parametrize(
        "planted",
        [
            {"before": [2, "bbbbbbbb", 0]},
            {"before": [1, "aaaaaaaa", 0]},
            {"before": [1, "aaaaaaaa", -1]},
            {"before": [1, "cccccccc", 0]},
            {"before": [1, 2, 3]},
            {"before": [1]},
            {"before": {"a": 1}},
            {"before": "frame"},
        ],
        ids=str,
    )
    def test_frames_that_lead_nowhere_do_not_count(self, place: Place, planted: dict[str, Any]) -> None:
        attempt(place.dataset(), owner(), stop=True)
        plant(place, "0001-aaaaaaaa", planted)
        plant(place, "0002-bbbbbbbb", {"before": [1, "aaaaaaaa", 0]})

        assert attempt(place.dataset(), owner(), rows(5)).resumed is False
        assert place.lines() == rows(5)

    def test_frames_of_a_version_that_is_not_known_are_refused_and_kept(self, place: Place) -> None:
        attempt(place.dataset(), owner(), stop=True)
        name = plant(place, "0001-aaaaaaaa", {"version": 2})
        content = place.read(name)

        with pytest.raises(PermanentError, match=r"has version 2, .* Install the version that staged it"):
            attempt(place.dataset(), owner(), rows(5))
        assert place.read(name) == content


def changes_of(place: Place) -> str:
    return f"{place.prefix}/changes/c.jsonl"


def pair(place: Place) -> tuple[Any, str]:
    """Return the published records, and what their changes say."""
    return place.lines(), place.read("changes/c.jsonl").decode()


class TestChanges:
    @pytest.fixture
    def both(self, place: Place) -> Place:
        """Return a place of each kind in which an older task has published both files."""
        publish(place, OLD, owner("older/run/task/-1"), changes=changes_of(place))
        return place

    def test_both_are_published_and_the_summary_names_the_changes(self, place: Place) -> None:
        summary = publish(place, NEW, owner(), changes=changes_of(place))

        assert pair(place) == (NEW, "3 records")
        size = len(place.read("d.jsonl"))
        assert summary == {"path": summary["path"], "rows": 3, "bytes": size, "changes": changes_of(place)}
        assert place.dataset().published(owner()) == summary
        assert place.is_settled()

    def test_changes_may_go_to_another_storage_than_their_dataset(self, tmp_path: Path, store: FakeStore) -> None:
        publish(local_place(tmp_path), NEW, owner(), changes="memory://shelf@bucket/c.jsonl")

        assert store.cat_file("/bucket/c.jsonl") == b"3 records"

    def test_changes_on_a_storage_that_cannot_be_opened_are_refused_before_the_block(self, place: Place) -> None:
        with pytest.raises(PermanentError, match=r"changes hdfs://.* cannot be opened"):
            place.dataset(changes="hdfs://host/c.jsonl").staging(owner()).__enter__()

    def test_changes_that_cannot_be_written_leave_the_older_pair(self, both: Place) -> None:
        def refuse(_: Path) -> None:
            raise OSError("no space left")

        dataset = both.dataset(changes=changes_of(both))
        with pytest.raises(OSError, match="no space left"), dataset.staging(owner()) as staging:  # noqa: PT012
            staging.commit(NEW, None)
            staging.changes = refuse

        assert pair(both) == (OLD, "2 records")
        with dataset.staging(owner()) as staging:
            staging.changes = lambda file: _write(file, "3 records")
        assert pair(both) == (NEW, "3 records")

    def test_both_stay_if_the_content_is_the_same(self, place: Place) -> None:
        publish(place, OLD, owner("one"), digest="same", changes=changes_of(place))
        summary = publish(place, NEW, owner("two"), digest="same", changes=changes_of(place))

        assert pair(place) == (OLD, "2 records")
        assert (summary["changed"], summary["changes"]) == (False, None)

    def test_lines_of_several_commits_and_attempts_are_found_by_their_place(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0, 3), [], rows(3, 1), stop=True)
        attempt(place.dataset(), owner(), rows(4, 2), stop=True)
        with place.dataset().staging(owner()) as staging:
            staging.commit(rows(6, 2), None)
            lines, start = list(staging.lines()), 0
            for number, line in enumerate(lines):
                assert staging.line(start, len(line)) == line
                assert list(staging.lines(start)) == lines[number:]
                start += len(line) + 1
            assert list(staging.lines(start)) == []
        assert place.lines() == rows(0, 8)

    def test_a_version_that_is_replaced_while_it_is_read_is_not_compared_with(self, both: Place) -> None:
        with (  # noqa: PT012
            pytest.raises(DestinationReplacedError, match="was published by another run or program"),
            both.dataset().staging(owner()) as staging,
        ):
            records = staging.replaced_records()
            next(records)
            both.remove("d.jsonl")
            list(records)
