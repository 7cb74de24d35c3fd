"""The captures of a source: which files are found, when and why each was taken, and what is wrong with it."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mediaops.cluster.capture.reading import NoReportError
from airflow_provider_mediaops.cluster.digest.period import Period
from airflow_provider_mediaops.cluster.digest.source import (
    HEAD_BYTES,
    FoundCapture,
    FoundFile,
    find_captures,
    read_captures,
)
from airflow_provider_mediaops.cluster.digest.sums import CaptureSums, ReadCapture
from tests.unit.cluster.digest.captured_days import MONDAY, SEARCH, hot, running, text_at, write_capture
from tests.unit.storage.fake_store import FakeStore, attached

TEXT = text_at(MONDAY, hot("data-1", "search", 50, SEARCH))
LATER = MONDAY + timedelta(hours=3)


def unexpected(warning: str) -> None:
    raise AssertionError(warning)


def read(folder: Path, period: Period = Period()) -> list[ReadCapture]:  # noqa: B008 - it is frozen
    """Read the only capture of a folder."""
    (files,) = find_captures([str(folder)])
    return read_captures(files, period, unexpected)


def damage_of(files: FoundCapture) -> str:
    """Return why files hold no capture."""
    with pytest.raises(NoReportError) as caught:
        read_captures(files, Period(), unexpected)
    return str(caught.value)


def only(folder: Path) -> ReadCapture:
    (found,) = read(folder)
    return found


def from_day(day: int, until: float | None = None) -> Period:
    return Period((MONDAY + timedelta(days=day)).timestamp(), until)


@pytest.mark.parametrize(
    ("reason", "series"), [("spike", "spike"), ("at_once", "scheduled"), ("time_limit", "scheduled"), (None, "unknown")]
)
def test_the_json_file_says_when_and_why(tmp_path: Path, reason: Any, series: str) -> None:
    write_capture(tmp_path, LATER, TEXT, reason=reason, tasks=running("a"))
    found = only(tmp_path)
    assert (found.time, found.time_source, found.series) == (LATER.timestamp(), "capture", series)
    assert [row.first for row in CaptureSums(found).tasks.values()] == [LATER.timestamp()]


@pytest.mark.parametrize("name", ["2.19.1-cpu", "3.8.0-cpu-with-idle-threads", "3.8.0-wait", "3.8.0-block"])
def test_json_of_a_real_report_has_the_sums_of_its_text(tmp_path: Path, data: Path, name: str) -> None:
    text = (data / "hot_threads" / f"opensearch-{name}.txt").read_text()
    for format in ("txt", "json"):
        write_capture(tmp_path / format, LATER, text, formats=(format,))
    one, other = (CaptureSums(only(tmp_path / format)) for format in ("txt", "json"))
    assert (one.frames.keys(), one.pools, one.stacks) == (other.frames.keys(), other.pools, other.stacks)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_pasted_text_says_when_and_not_why(tmp_path: Path, compressed: bool) -> None:  # noqa: FBT001 - by pytest
    content = TEXT.encode()
    (tmp_path / "pasted.txt").write_bytes(gzip.compress(content) if compressed else content)
    found = only(tmp_path)
    assert (found.time, found.time_source, found.series) == (MONDAY.timestamp(), "report", "unknown")


def test_of_a_text_without_a_time_that_of_its_file_counts(tmp_path: Path) -> None:
    file = tmp_path / "pasted.txt"
    file.write_text("\n".join(line for line in TEXT.splitlines() if "Hot threads at" not in line))
    os.utime(file, (1e9, 1e9))
    found = only(tmp_path)
    assert (found.time, found.time_source) == (1e9, "file")


def test_source_that_is_no_regular_file_is_left_out_at_once(tmp_path: Path) -> None:
    names = {"pipe.txt", "circle.txt", "endless.json"}
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "circle.txt").symlink_to("circle.txt")
    (tmp_path / "endless.json").symlink_to("/dev/zero")

    found = find_captures([str(tmp_path)])

    assert {files.name.rpartition("/")[2] for files in found} == names
    assert {damage_of(files) for files in found} == {"it is not a regular file"}


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
    period = from_day(3)
    assert [period.place_of(found.time) for found in read(tmp_path, period)] == ["outside"]
    assert max(read_bytes) <= HEAD_BYTES


def test_captures_appended_to_one_text_count_one_by_one_each_at_its_own_time(tmp_path: Path) -> None:
    days = [(10 + day, MONDAY + timedelta(days=day)) for day in range(4)]
    texts = [text_at(at, hot("data-1", "search", share, SEARCH)) for share, at in days]
    (tmp_path / "appended.txt").write_text("".join(texts))
    found = [(each.time, CaptureSums(each).amount) for each in read(tmp_path)]
    assert found == [(from_day(day).since, 10 + day) for day in range(4)]


def test_a_node_whose_clock_is_late_does_not_hide_the_others(tmp_path: Path) -> None:
    """The first time in a text need not be its earliest."""
    late = text_at(MONDAY + timedelta(minutes=5), hot("data-2", "search", 50, SEARCH), node="data-2")
    (tmp_path / "pasted.txt").write_text(late + TEXT)
    (found,) = read(tmp_path, from_day(-1, MONDAY.timestamp() + 60))
    assert found.time == MONDAY.timestamp()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"", "it is empty"),
        ("a.txt", b"hello\n", "it holds no report of hot threads"),
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
    (files,) = find_captures([str(tmp_path)])
    assert damage_of(files).startswith(reason)


def test_a_file_that_has_gone_is_damaged(tmp_path: Path) -> None:
    file = write_capture(tmp_path, MONDAY, TEXT, formats=("txt",))
    (files,) = find_captures([str(tmp_path)])
    file.unlink()
    assert damage_of(files) == "it is gone"


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_an_earlier_digest_is_no_capture_and_a_mark_at_the_start_of_a_file_is_no_damage(
    tmp_path: Path, mark: str
) -> None:
    """Editors of Windows put the mark of UTF-8 before JSON, too."""
    (tmp_path / "digest.json").write_text(f'{mark}{{"digest": {{"since": null}}, "profiles": []}}')
    assert read(tmp_path) == []
    (tmp_path / "digest.json").unlink()
    file = write_capture(tmp_path, LATER, TEXT, formats=("json",)).with_suffix(".json")
    file.write_text(f"{mark}{file.read_text()}")
    assert only(tmp_path).time == LATER.timestamp()


def test_a_head_that_takes_more_than_the_first_bytes_is_read_whole(tmp_path: Path) -> None:
    tasks = running("a")
    tasks["nodes"] *= 500
    write_capture(tmp_path, LATER, TEXT, tasks=tasks)
    assert next(tmp_path.glob("*.json")).stat().st_size > HEAD_BYTES
    assert [row.running for row in CaptureSums(only(tmp_path)).tasks.values()] == [1000]


def test_of_a_text_and_a_json_file_the_json_file_counts(tmp_path: Path) -> None:
    """Another program may have written the text since, or it may be deleted while others are read."""
    for name in ("both", "other", "gone"):
        write_capture(tmp_path / name, LATER, TEXT)
    next((tmp_path / "other").glob("*.txt")).write_text(text_at(MONDAY, hot("data-9", "write", 5, SEARCH)))
    (gone,) = find_captures([str(tmp_path / "gone")])
    next((tmp_path / "gone").glob("*.txt")).unlink()
    one, other = only(tmp_path / "both"), only(tmp_path / "other")
    (third,) = read_captures(gone, Period(), unexpected)
    for each in (other, third):
        assert (each.time, each.series, each.report) == (one.time, one.series, one.report)


def test_text_and_json_file_without_a_report_are_both_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "a.json").write_text('{"took": 5}')
    (files,) = find_captures([str(tmp_path)])
    assert damage_of(files).startswith(
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
    (found,) = read_captures(files, Period(), warnings.append)
    assert (found.time, found.time_source, found.series) == (MONDAY.timestamp(), "report", "unknown")
    (warning,) = warnings
    assert warning.startswith(f"Read {file.with_suffix('.txt')} without the .json file beside it: ")


NAMES = (
    *("b.txt", "a.txt", "a.json", "a.html", "a.folded", "d.log"),
    *("deep/c.json", "deep/d.txt.gz", ".a.txt.part", ".hidden/e.txt"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        file = tmp_path / "reports" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "reports"


def found(folder: Path, *sources: object) -> list[tuple[str, bool, bool]]:
    captures = find_captures([str(source) for source in sources])
    return [(each.stem.removeprefix(f"{folder}/"), bool(each.text), bool(each.json)) for each in captures]


def test_a_folder_is_searched_with_all_below_it(folder: Path) -> None:
    whole = [("a", True, True), ("b", True, False), ("deep/c", False, True), ("deep/d", True, False)]
    assert found(folder, folder) == found(folder, f"{folder}/") == found(folder, folder.as_uri()) == whole


def test_a_pattern_and_a_file_may_name_other_texts(folder: Path) -> None:
    assert found(folder, folder / "*") == [("a", True, True), ("b", True, False), ("d.log", True, False)]
    assert found(folder, folder / "d.log") == [("d.log", True, False)]
    assert found(folder, folder / "**" / "*.gz") == [("deep/d", True, False)]
    assert found(folder, folder / "a.html") == []


def test_path_with_the_signs_of_a_pattern_is_that_of_the_file_or_folder_if_there_is_one(folder: Path) -> None:
    odd = folder / "deep" / "[2026] *why? so"
    odd.mkdir()
    (odd / "a[1].txt").write_text("a")
    name = "deep/[2026] *why? so/a[1]"
    assert found(folder, odd) == found(folder, f"{odd}/") == found(folder, odd / "a[1].txt") == [(name, True, False)]


def test_several_sources_name_each_capture_once(folder: Path) -> None:
    assert found(folder, folder, folder / "a.txt", folder / "deep") == found(folder, folder)


def test_links_and_detours_name_no_capture_twice(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    (folder / "latest.txt").symlink_to("b.txt")
    whole = found(folder, folder)
    assert [stem for stem, *_ in whole] == ["a", "b", "deep/c", "deep/d"]
    assert found(folder, folder, f"{folder}/../reports", link, link / "deep" / ".." / "a.json") == whole


def test_links_of_one_name_are_one_capture_wherever_they_lead(folder: Path) -> None:
    (folder / "run.txt").symlink_to("deep/d.txt.gz")
    (folder / "run.json").symlink_to("deep/c.json")
    assert ("run", True, True) in found(folder, folder / "run.txt", folder / "run.json")


def test_a_file_that_does_not_exist_is_named(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.txt cannot be read: "):
        found(folder, folder / "gone.txt")


def test_a_store_is_searched_likewise() -> None:
    with attached(FakeStore(), "captures") as store:
        for name in NAMES:
            store.pipe_file(f"/bucket/{name}", name.encode())
        captures = find_captures(["memory://captures@bucket/"])
        store.pipe_file("/bucket/deep/../a.json", b"a.json")
        detour = find_captures(["memory://captures@bucket/", "memory://captures@bucket/deep/../a.json"])
        assert [each.stem for each in detour] == [each.stem for each in captures]
        store.rm_file("/bucket/deep/../a.json")
        store.pipe_file("/bucket/[x]/1.txt", b"1")
        for source in ("[x]", "[x]/", "[x]/1.txt"):
            (odd,) = find_captures([f"memory://captures@bucket/{source}"])
            assert odd.name == "memory://bucket/[x]/1.txt"
        store.rm_file("/bucket/[x]/1.txt")
        assert [each.name for each in captures] == [
            f"memory://bucket/{name}" for name in ("a.txt", "b.txt", "deep/c.json", "deep/d.txt.gz")
        ]
        assert captures[0].text is not None
        assert captures[0].text.read(3) == b"a.t"
        store.pipe_file("/bucket/deep/d.txt.gz", b"\x1f\x8b\x08\x00????????")
        assert captures[3].text is not None
        with pytest.raises(NoReportError, match="gzip, but damaged"):
            captures[3].text.read(100)


def read_bytes(folder: Path, content: bytes, most: int, name: str = "a.txt.gz") -> bytes:
    """Return what is read of the only capture of a folder."""
    (folder / name).write_bytes(content)
    (capture,) = find_captures([str(folder)])
    assert capture.text is not None
    return capture.text.read(most)


def test_gzip_is_unpacked_by_its_content_to_its_end_and_no_further_than_asked(tmp_path: Path) -> None:
    assert read_bytes(tmp_path, gzip.compress(b"x" * 10_000_000), 1_000_000, "a.txt") == b"x" * 1_000_000
    put_together = gzip.compress(b"first,") + gzip.compress(b"second") + b"\0" * 20
    assert read_bytes(tmp_path, put_together, 100, "a.txt") == b"first,second"


def test_gzip_that_is_cut_is_no_capture_with_fewer_threads(tmp_path: Path) -> None:
    with pytest.raises(NoReportError, match="gzip, but cut"):
        read_bytes(tmp_path, gzip.compress(bytes(range(256)) * 40)[:200], 1_000_000)


@pytest.fixture
def closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below that this user may not list, which permissions do not bring about for root."""
    within, list_folder, open_file = folder / "deep", os.scandir, Path.open

    def refusing(given: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *arguments: Any, **named: Any) -> Any:
            if os.fspath(path) == str(within):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(within))
            return given(path, *arguments, **named)

        return call

    monkeypatch.setattr(os, "scandir", refusing(list_folder))
    monkeypatch.setattr(Path, "open", refusing(open_file))
    return within


@pytest.mark.parametrize("pattern", ["", "/", "/**/*.json", "/*/c.json", "/d*/c.json"])
def test_a_folder_that_may_not_be_listed_is_named(folder: Path, closed: Path, pattern: str) -> None:
    captures = {each.name: each for each in find_captures([f"{folder}{pattern}"])}
    file = captures[str(closed)].text
    assert file is not None
    with pytest.raises(PermissionError, match="deep cannot be read"):
        file.read(10)


@pytest.mark.parametrize("below", ["", "/*.json"])
def test_a_source_that_may_not_be_listed_is_an_error(closed: Path, below: str) -> None:
    with pytest.raises(PermissionError, match=r"deep.* cannot be read"):
        find_captures([f"{closed}{below}"])
