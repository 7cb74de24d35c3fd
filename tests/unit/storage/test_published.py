"""A task instance finds again what it has published, whatever is there now; and changes go with their dataset."""

from __future__ import annotations

import json
import os
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.exceptions import DestinationReplacedError, InvalidArgumentError, PermanentError
from airflow_provider_mediaops.storage.local import LocalBackend
from airflow_provider_mediaops.storage.object_store import StoreBackend
from airflow_provider_mediaops.storage.path_checks import check_changes_path
from tests.unit.storage.places import Place, StoppedError, attempt, local_place, owner, rows, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_provider_mediaops.storage.ownership import Owner

OLD, NEW = rows(0), rows(5, 3)
MANIFEST = ".d.jsonl.staging/manifest.json"


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

    def test_a_log_that_somebody_has_damaged_counts_up_to_there(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0), stop=True)
        for name in place.staged():
            content = place.read(f".d.jsonl.staging/{owner().folder}/{name}")
            place.write(f".d.jsonl.staging/{owner().folder}/{name}", content.replace(b'"n":0', b'"n":7'))
        place.write(f".d.jsonl.staging/{owner().folder}/note.txt", b"?")

        assert attempt(place.dataset(), owner(), rows(5)).resumed is False
        assert place.lines() == rows(5)

    @pytest.mark.parametrize(
        "before",
        [
            [2, "bbbbbbbb", 0],
            [1, "aaaaaaaa", 0],
            [1, "aaaaaaaa", -1],
            [1, "cccccccc", 0],
            [1, 2, 3],
            [1],
            {"a": 1},
            "frame",
        ],
        ids=str,
    )
    def test_planted_frames_that_lead_nowhere_do_not_count(self, place: Place, before: object) -> None:
        attempt(place.dataset(), owner(), stop=True)
        for claim, its in (("0001-aaaaaaaa", before), ("0002-bbbbbbbb", [1, "aaaaaaaa", 0])):
            header = {"version": 1, "number": 0, "kind": "rows", "rows": 1, "data": 1, "size": 0, "before": its}
            text = json.dumps(header).encode()
            name = claim if place.prefix.startswith("/") else f"{claim}-000000"
            content = b"%08x %b\n7" % (zlib.crc32(b"7", zlib.crc32(text)), text)
            place.write(f".d.jsonl.staging/{owner().folder}/{name}", content)

        assert attempt(place.dataset(), owner(), rows(5)).resumed is False
        assert place.lines() == rows(5)

    def test_a_log_of_another_version_is_refused_and_stays(self, place: Place) -> None:
        attempt(place.dataset(), owner(), rows(0), stop=True)
        [name] = [each for each in place.staged() if place.read(f".d.jsonl.staging/{owner().folder}/{each}")]
        path = f".d.jsonl.staging/{owner().folder}/{name}"
        content = place.read(path).replace(b'"version":1', b'"version":2')
        place.write(path, content)

        with pytest.raises(PermanentError, match=r"has version '2', which this version .* does not know.* delete it"):
            place.dataset().staging(owner()).__enter__()
        assert place.read(path) == content


def publish(
    place: Place, records: list[dict[str, Any]], who: Owner | None = None, text: str = "", name: str = "d.jsonl"
) -> dict[str, Any]:
    """Do what a task does: return what it has published, or publish records with changes that count them."""
    who = who or owner()
    dataset = place.dataset(name, changes=f"{place.prefix}/changes/c.jsonl")
    summary = dataset.published(who)
    if summary is not None:
        return summary
    with dataset.staging(who) as staging:
        for record in records[staging.rows :]:
            staging.commit([record], None)
            staging.flush()
        staging.changes = lambda file: _write(file, text or f"{len(records)} records")
    return staging.summary


def _write(file: Path, text: str) -> None:
    file.write_text(text)


def pair(place: Place) -> tuple[Any, str]:
    """Return the published records, and what their changes say."""
    return place.lines(), place.read("changes/c.jsonl").decode()


class TestChanges:
    @pytest.fixture
    def both(self, place: Place) -> Place:
        """Return a place of each kind in which an older task has published both files."""
        publish(place, OLD, owner("older/run/task/-1"))
        return place

    def test_both_are_published_and_the_summary_names_the_changes(self, place: Place) -> None:
        summary = publish(place, NEW)

        assert pair(place) == (NEW, "3 records")
        path = f"{place.prefix}/changes/c.jsonl"
        assert summary == {"path": summary["path"], "rows": 3, "bytes": len(place.read("d.jsonl")), "changes": path}
        assert place.dataset().published(owner()) == summary
        assert place.is_settled()

    @pytest.mark.parametrize("name", ["d.csv", "d.parquet"])
    def test_every_format_has_them(self, place: Place, name: str) -> None:
        publish(place, NEW, name=name)

        assert place.read("changes/c.jsonl") == b"3 records"

    def test_a_failed_attempt_leaves_the_older_pair(self, both: Place) -> None:
        with stopped(), both.dataset(changes=f"{both.prefix}/changes/c.jsonl").staging(owner()) as staging:
            staging.commit(NEW, None)
            staging.changes = lambda file: _write(file, "never")
            raise StoppedError

        assert pair(both) == (OLD, "2 records")

    def test_changes_that_cannot_be_written_leave_the_older_pair(self, both: Place) -> None:
        def refuse(_: Path) -> None:
            raise OSError("no space left")

        def write() -> None:
            with both.dataset(changes=f"{both.prefix}/changes/c.jsonl").staging(owner()) as staging:
                staging.commit(NEW, None)
                staging.changes = refuse

        with pytest.raises(OSError, match="no space left"):
            write()

        assert pair(both) == (OLD, "2 records")
        publish(both, NEW)
        assert pair(both) == (NEW, "3 records")

    def test_both_stay_if_the_content_is_the_same(self, place: Place) -> None:
        for number in (1, 2):
            text = f"of run {number}"
            dataset = place.dataset(changes=f"{place.prefix}/changes/c.jsonl")
            with dataset.staging(owner(f"dag/run-{number}/task/-1")) as staging:
                staging.commit(OLD, None)
                staging.digest = "same"
                staging.changes = lambda file, text=text: _write(file, text)

        assert pair(place) == (OLD, "of run 1")
        assert (staging.summary["changed"], staging.summary["changes"]) == (False, None)

    def test_the_replaced_records_are_those_of_the_version_before(self, both: Place) -> None:
        with both.dataset().staging(owner()) as staging:
            assert staging.replaced is not None
            assert staging.replaced.owner.task == "older/run/task/-1"
            assert list(map(json.loads, staging.replaced_records())) == OLD
            staging.commit(NEW, None)
            assert [json.loads(line) for line in staging.lines()] == NEW
            first, *_ = staging.lines()
            assert [json.loads(line) for line in staging.lines(len(first) + 1)] == NEW[1:]
            assert staging.line(len(first) + 1, len(first)) == json.dumps(NEW[1], separators=(",", ":")).encode()

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
        def read() -> Iterator[str]:
            with both.dataset().staging(owner()) as staging:
                records = staging.replaced_records()
                yield next(records)
                both.remove("d.jsonl")
                yield from records

        with pytest.raises(DestinationReplacedError, match="was published by another run or program"):
            list(read())

    @pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.parquet"])
    def test_a_pipe_that_takes_the_place_of_the_older_version_is_not_waited_at(self, tmp_path: Path, name: str) -> None:
        place = local_place(tmp_path)
        publish(place, OLD, owner("older/run/task/-1"), name=name)

        with stopped(), place.dataset(name).staging(owner()) as staging:
            place.remove(name)
            os.mkfifo(tmp_path / name)
            with pytest.raises(InvalidArgumentError, match=f"{name} is a named pipe"):
                next(staging.unverified_records())
            with pytest.raises(DestinationReplacedError):
                next(staging.replaced_records())
            raise StoppedError


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/out/d.jsonl", "changes and destination are one file"),
        ("file:///out/d.jsonl", "changes and destination are one file"),
        ("/out/../out/d.jsonl", "changes and destination are one file"),
        ("/out/d.jsonl/changes.jsonl", "changes '.*' and destination '/out/d.jsonl' cannot both be files"),
        ("/out", "changes '/out' and destination '/out/d.jsonl' cannot both be files"),
        ("/out/.d.jsonl", "changes is a hidden file"),
        ("s3://one@bucket/c.jsonl", "changes '.*' is on another storage than the destination '/out/d.jsonl'"),
    ],
)
def test_a_path_of_changes_that_cannot_be_published_is_refused(path: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_changes_path("changes", path, "/out/d.jsonl")


def test_changes_are_on_the_storage_of_their_dataset() -> None:
    destination = "s3://one@b/d.jsonl"
    for path in ("s3://b/e.jsonl", "s3://one@other/e.jsonl"):
        check_changes_path("changes", path, destination)
    for path in ("s3://two@b/e.jsonl", "gs://one@b/e.jsonl", "/out/e.jsonl"):
        with pytest.raises(InvalidArgumentError, match="is on another storage"):
            check_changes_path("changes", path, destination)
