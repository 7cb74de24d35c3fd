"""One capture of its files: when and why it was taken, and what is wrong with it."""

from __future__ import annotations

import gzip
import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.digest import reading
from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.cluster.digest.reading import HEAD_BYTES, FoundSums, belongs_to_capture, read_captures
from airflow_provider_mediaops.cluster.digest.source import FoundFile, find_captures
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from tests.unit.cluster.digest.captured_days import MONDAY, SEARCH, hot, running, text_at, write_capture

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.cluster.digest.capture_sums import CaptureSums

TEXT = text_at(MONDAY, hot("data-1", "search", 50, SEARCH))
LATER = MONDAY + timedelta(hours=3)


def read(folder: Path, period: Period | None = None, warnings: list[str] | None = None) -> FoundSums:
    (files,) = find_captures([str(folder)])
    return read_captures(files, period or Period(), ([] if warnings is None else warnings).append)


def sums(folder: Path, warnings: list[str] | None = None) -> CaptureSums:
    found = read(folder, None, warnings)
    assert (found.outside, found.damage) == (0, "")
    (one,) = found.sums
    return one


@pytest.mark.parametrize(
    ("reason", "series"), [("spike", "spike"), ("at_once", "scheduled"), ("time_limit", "scheduled"), (None, "unknown")]
)
def test_the_json_file_says_when_and_why(tmp_path: Path, reason: Any, series: str) -> None:
    write_capture(tmp_path, LATER, TEXT, reason=reason, tasks=running("a"))
    found = sums(tmp_path)
    assert (found.time, found.time_source, found.series) == (LATER.timestamp(), "capture", series)
    assert [row.first for row in found.tasks.values()] == [LATER.timestamp()]


@pytest.mark.parametrize("name", ["2.19.1-cpu", "3.8.0-cpu-with-idle-threads", "3.8.0-wait", "3.8.0-block"])
def test_json_of_a_real_report_has_the_sums_of_its_text(tmp_path: Path, data: Path, name: str) -> None:
    text = (data / "hot_threads" / f"opensearch-{name}.txt").read_text()
    for format in ("txt", "json"):
        write_capture(tmp_path / format, LATER, text, formats=(format,))
    one, other = sums(tmp_path / "txt"), sums(tmp_path / "json")
    assert (one.frames.keys(), one.pools, one.stacks) == (other.frames.keys(), other.pools, other.stacks)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_pasted_text_says_when_and_not_why(tmp_path: Path, compressed: bool) -> None:  # noqa: FBT001 - by pytest
    content = TEXT.encode()
    (tmp_path / "pasted.txt").write_bytes(gzip.compress(content) if compressed else content)
    found = sums(tmp_path)
    assert (found.time, found.time_source, found.series) == (MONDAY.timestamp(), "report", "unknown")


def test_of_a_text_without_a_time_that_of_its_file_counts(tmp_path: Path) -> None:
    file = tmp_path / "pasted.txt"
    file.write_text("\n".join(line for line in TEXT.splitlines() if "Hot threads at" not in line))
    os.utime(file, (1e9, 1e9))
    found = sums(tmp_path)
    assert (found.time, found.time_source) == (1e9, "file")


def test_source_that_is_no_regular_file_is_left_out_at_once(tmp_path: Path) -> None:
    names = {"pipe.txt", "circle.txt", "endless.json"}
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "circle.txt").symlink_to("circle.txt")
    (tmp_path / "endless.json").symlink_to("/dev/zero")

    found = find_captures([str(tmp_path)])

    assert {files.name.rpartition("/")[2] for files in found} == names
    assert {read_captures(files, Period(), unexpected) for files in found} == {
        FoundSums(damage="it is no regular file")
    }


def test_capture_whose_json_file_is_of_another_time_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_capture(tmp_path, MONDAY, TEXT)
    whole = FoundFile.read
    read_bytes = []

    def counted(file: FoundFile, most: int) -> bytes:
        read_bytes.append(most)
        return whole(file, most)

    monkeypatch.setattr(FoundFile, "read", counted)
    period = Period((MONDAY + timedelta(days=3)).timestamp(), (MONDAY + timedelta(days=4)).timestamp())
    for files in find_captures([str(tmp_path)]):
        assert read_captures(files, period, unexpected) == FoundSums(outside=1)
    assert max(read_bytes) <= 1 << 16


def test_text_of_another_time_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pasted.txt").write_text(TEXT)
    monkeypatch.setattr(reading, "read_reports", lambda _: pytest.fail("parsed"))
    assert read(tmp_path, Period((MONDAY + timedelta(days=3)).timestamp(), None)) == FoundSums(outside=1)


def test_captures_appended_to_one_text_count_one_by_one_each_at_its_own_time(tmp_path: Path) -> None:
    texts = [
        text_at(MONDAY + timedelta(days=day), hot("data-1", "search", 10 + day, SEARCH), node="data-1")
        for day in range(4)
    ]
    (tmp_path / "appended.txt").write_text("".join(texts))
    (files,) = find_captures([str(tmp_path)])
    found = read_captures(files, Period((MONDAY + timedelta(days=2)).timestamp(), None), unexpected)
    assert [(each.time, each.amount) for each in found.sums] == [
        ((MONDAY + timedelta(days=day)).timestamp(), 10 + day) for day in (2, 3)
    ]
    assert found.outside == 2


def test_a_node_whose_clock_is_late_does_not_hide_the_others(tmp_path: Path) -> None:
    """The first time in a text need not be its earliest."""
    late = text_at(MONDAY + timedelta(minutes=5), hot("data-2", "search", 50, SEARCH), node="data-2")
    (tmp_path / "pasted.txt").write_text(late + TEXT)
    found = read(
        tmp_path, Period((MONDAY - timedelta(hours=1)).timestamp(), (MONDAY + timedelta(minutes=1)).timestamp())
    )
    assert [each.time for each in found.sums] == [MONDAY.timestamp()]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"", "it is empty"),
        ("a.txt", b"hello\n", "it holds no report of hot threads"),
        ("a.txt", b"<html></html>", "it is a web page"),
        ("a.txt", TEXT.encode("utf-16"), "it is UTF-16"),
        ("a.txt.gz", b"\x1f\x8b\x08\x00????????", "it is gzip, but damaged"),
        ("a.json", b'{"nodes": [', "it is not valid JSON"),
        ("a.json", b'{"took": 5}', "it is JSON, but not that of a capture"),
        ("a.json", b'{"nodes": [{"threads": 5}]}', "it is JSON, but not that of a capture"),
        ("a.json", b"[" * 100_000, "it is not valid JSON"),
    ],
)
def test_a_damaged_file_is_said_to_be(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert read(tmp_path).damage.startswith(reason)


def test_a_file_that_has_gone_is_damaged(tmp_path: Path) -> None:
    file = write_capture(tmp_path, MONDAY, TEXT, formats=("txt",))
    (files,) = find_captures([str(tmp_path)])
    file.unlink()
    gone = "it was there when the files were listed, and is gone"
    assert read_captures(files, Period(), unexpected) == FoundSums(damage=gone)


def unexpected(warning: str) -> None:
    raise AssertionError(warning)


def test_an_earlier_digest_is_no_capture(tmp_path: Path) -> None:
    (tmp_path / "digest.json").write_text('{"digest": {"since": null}, "profiles": []}')
    assert read(tmp_path) == FoundSums()


def test_a_head_that_takes_more_than_the_first_bytes_is_read_whole(tmp_path: Path) -> None:
    tasks = running("a")
    tasks["nodes"] *= 500
    write_capture(tmp_path, LATER, TEXT, tasks=tasks)
    assert next(tmp_path.glob("*.json")).stat().st_size > HEAD_BYTES
    assert [row.running for row in sums(tmp_path).tasks.values()] == [1000]


def test_of_a_text_and_a_json_file_the_json_file_counts(tmp_path: Path) -> None:
    """Another program may have written the text since, or it may be deleted while others are read."""
    for name in ("both", "other", "gone"):
        write_capture(tmp_path / name, LATER, TEXT)
    next((tmp_path / "other").glob("*.txt")).write_text(text_at(MONDAY, hot("data-9", "write", 5, SEARCH)))
    (gone,) = find_captures([str(tmp_path / "gone")])
    next((tmp_path / "gone").glob("*.txt")).unlink()
    one, other = sums(tmp_path / "both"), sums(tmp_path / "other")
    (third,) = read_captures(gone, Period(), unexpected).sums
    for each in (other, third):
        assert (each.time, each.series, each.frames, each.stacks) == (one.time, one.series, one.frames, one.stacks)


def test_json_file_that_does_not_say_when_does_not_hide_the_captures_of_the_text_beside_it(tmp_path: Path) -> None:
    """``airflow mediaops hot-threads --json`` makes such a file, of a text to which others may be appended since."""
    (tmp_path / "pasted.json").write_text(json.dumps(parse(TEXT).to_dict()))
    texts = [text_at(MONDAY + timedelta(days=day), hot("data-1", "search", 50, SEARCH)) for day in range(3)]
    (tmp_path / "pasted.txt").write_text("".join(texts))
    found = read(tmp_path)
    assert [each.time for each in found.sums] == [(MONDAY + timedelta(days=day)).timestamp() for day in range(3)]


def test_text_and_json_file_without_a_report_are_both_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "a.json").write_text('{"took": 5}')
    assert read(tmp_path).damage.startswith(
        "it is empty; of the .json file beside it: it is JSON, but not that of a capture"
    )


@pytest.mark.parametrize("becomes", ["gone", "no file", "damaged gzip"])
def test_without_a_json_file_that_can_be_read_the_text_counts(tmp_path: Path, becomes: str) -> None:
    file = write_capture(tmp_path, LATER, TEXT).with_suffix(".json")
    (files,) = find_captures([str(tmp_path)])
    file.unlink()
    if becomes == "no file":
        os.mkfifo(file)
    elif becomes == "damaged gzip":
        file.write_bytes(b"\x1f\x8b\x08\x00????????")
    warnings: list[str] = []
    (found,) = read_captures(files, Period(), warnings.append).sums
    assert (found.time, found.time_source, found.series) == (MONDAY.timestamp(), "report", "unknown")
    (warning,) = warnings
    assert warning.startswith(f"Read {file.with_suffix('.txt')} without the .json file beside it: it ")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "", True),
        ("a.json", '{"capture": {}, "nodes": []}', True),
        ("a.json", '{\n "capture": {', True),
        ("a.json", '{"digest": {}}', False),
        ("a.json", '{"took": 5}', False),
    ],
)
def test_files_of_a_capture_are_known(tmp_path: Path, name: str, content: str, expected: bool) -> None:  # noqa: FBT001 - by pytest
    (tmp_path / name).write_text(content)
    (files,) = find_captures([str(tmp_path)])
    assert belongs_to_capture(files) is expected


def test_pipe_belongs_to_no_capture(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    (files,) = find_captures([str(tmp_path)])
    assert not belongs_to_capture(files)
