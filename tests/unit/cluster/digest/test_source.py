"""Files of captures in folders, by patterns and one by one, on the local disk and on a store."""

from __future__ import annotations

import errno
import gzip
import os
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.digest.source import find_captures
from airflow_provider_mediaops.cluster.report_files import NoReportError
from tests.unit.storage.attached import attached
from tests.unit.storage.fake_store import FakeStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = (
    "b.txt",
    "a.txt",
    "a.json",
    "a.html",
    "a.folded",
    "deep/c.json",
    "deep/d.txt.gz",
    "d.log",
    ".a.txt.part",
    ".hidden/e.txt",
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


def test_several_sources_name_each_capture_once(folder: Path) -> None:
    assert found(folder, folder, folder / "a.txt", folder / "deep") == found(folder, folder)


def test_a_file_that_does_not_exist_is_named(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.txt cannot be read: "):
        found(folder, folder / "gone.txt")


def test_a_store_is_searched_likewise() -> None:
    with attached(FakeStore(), "captures") as store:
        for name in NAMES:
            store.pipe_file(f"/bucket/{name}", name.encode())
        captures = find_captures(["memory://captures@bucket/"])
        assert [each.name for each in captures] == [
            f"memory://bucket/{name}" for name in ("a.txt", "b.txt", "deep/c.json", "deep/d.txt.gz")
        ]
        assert captures[0].text is not None
        assert captures[0].text.read(3) == b"a.t"


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


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        # An id of the content would have the time in it, which gzip writes.
        pytest.param(b"\x1f\x8b\x08\x00" + b"?" * 100, "gzip, but damaged", id="damaged"),
        pytest.param(gzip.compress(bytes(range(256)) * 40)[:200], "gzip, but cut", id="cut"),
    ],
)
def test_gzip_that_is_damaged_or_cut_is_no_capture_with_fewer_threads(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    with pytest.raises(NoReportError, match=reason):
        read_bytes(tmp_path, content, 1_000_000)


@pytest.fixture
def closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below that this user may not list, which permissions do not bring about for root."""
    within, list_folder, open_file = folder / "deep", os.scandir, os.open

    def refusing(given: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *arguments: Any, **named: Any) -> Any:
            if os.fspath(path) == str(within):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(within))
            return given(path, *arguments, **named)

        return call

    monkeypatch.setattr(os, "scandir", refusing(list_folder))
    monkeypatch.setattr(os, "open", refusing(open_file))
    return within


@pytest.mark.parametrize("pattern", ["", "/", "/**/*.json", "/*/c.json", "/d*/c.json"])
def test_a_folder_that_may_not_be_listed_is_named(folder: Path, closed: Path, pattern: str) -> None:
    captures = {each.name: each for each in find_captures([f"{folder}{pattern}"])}
    file = captures[str(closed)].text
    assert file is not None
    with pytest.raises(PermissionError, match="deep cannot be read"):
        file.read(10)


@pytest.mark.parametrize("pattern", ["/*.txt", "/e*/c.json", "/b.txt"])
def test_a_folder_that_no_pattern_leads_to_is_not_looked_at(folder: Path, closed: Path, pattern: str) -> None:
    assert str(closed) not in {each.name for each in find_captures([f"{folder}{pattern}"])}


@pytest.mark.parametrize("below", ["", "/*.json"])
def test_a_source_that_may_not_be_listed_is_an_error(closed: Path, below: str) -> None:
    with pytest.raises(PermissionError, match=r"deep.* cannot be read"):
        find_captures([f"{closed}{below}"])
