"""The files of captures: their names, what is checked beforehand, and how much memory they take."""

from __future__ import annotations

import json
import logging
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.capture.plan import FORMATS
from airflow_provider_mediaops.cluster.capture.summary import summary_of
from airflow_provider_mediaops.cluster.models import NodeStats
from airflow_provider_mediaops.cluster.page import document
from tests.unit.call_flows import START
from tests.unit.cluster.task_values import TASKS
from tests.unit.hot_threads_text import cpu, section, stack, thread
from tests.unit.search_cluster import report, stats
from tests.unit.storage.conftest import store as store  # noqa: PLC0414 a fixture

if TYPE_CHECKING:
    from tests.unit.storage.fake_store import FakeStore

LOG = logging.getLogger(__name__)


def captured(*nodes: str) -> Capture:
    return Capture(report(*nodes), None, NodeStats.read(stats(dict.fromkeys(nodes, 95))), (), START)


def files(folder: Path, formats: str | Sequence[str] = FORMATS, captures: int = 1) -> CaptureFiles:
    return CaptureFiles(f"{folder}/deep/hot.txt", formats, LOG, captures=captures)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


class TestOne:
    def test_all_formats_stand_side_by_side(self, tmp_path: Path) -> None:
        kept, capture = files(tmp_path), captured("node-1")
        told = kept.keep(capture, 1)
        kept.finish()
        assert names_in(tmp_path) == ["hot.folded", "hot.html", "hot.json", "hot.kinds", "hot.txt"]
        assert told == {"paths": told["paths"], "taken": "2026-03-14T20:00:00.000+00:00", **summary_of(capture)}
        written = {name: Path(path).read_text() for name, path in told["paths"].items()}
        assert written["txt"] == report("node-1")
        assert json.loads(written["json"])["nodes"][0]["name"] == "node-1"
        assert written["folded"].startswith("node-1;search;")
        assert written["kinds"] == f"Search: which kind is not visible;{written['folded']}"
        assert "<title>Hot threads of docs</title>" in written["html"]

    def test_the_text_is_written_before_it_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(_: str) -> None:
            raise RuntimeError("the parser has a fault")

        monkeypatch.setattr("airflow_provider_mediaops.cluster.hot_threads.parser.parse", fail)
        with pytest.raises(RuntimeError):
            files(tmp_path, ["json", "txt"]).keep(captured("node-1"), 1)
        assert names_in(tmp_path) == ["hot.txt"]

    def test_a_page_alone_will_do(self, tmp_path: Path) -> None:
        kept = files(tmp_path, ["html"])
        assert kept.keep(captured("node-1"), 1)["paths"] == {"html": f"{tmp_path}/deep/hot.html"}
        kept.finish()
        assert names_in(tmp_path) == ["hot.html"]


class TestSeveral:
    def test_captures_of_a_series_are_numbered_and_share_a_page(self, tmp_path: Path) -> None:
        kept = files(tmp_path, ["txt", "html"], captures=3)
        for number in (1, 3):
            kept.keep(captured(f"node-{number}"), number)
        kept.finish()
        assert names_in(tmp_path) == ["hot.1.txt", "hot.3.txt", "hot.html"]
        page = (tmp_path / "deep" / "hot.html").read_text()
        assert "node-1" in page
        assert "node-3" in page


class TestCheck:
    @pytest.mark.parametrize(("formats", "shown"), [("txt,json", True), ("html", True), ("txt,folded,kinds", False)])
    def test_only_json_and_page_show_statistics(self, tmp_path: Path, formats: str, *, shown: bool) -> None:
        assert files(tmp_path, formats).shows_statistics is shown

    def test_check_leaves_nothing_behind_and_an_older_file_as_it_is(self, tmp_path: Path) -> None:
        older = tmp_path / "deep" / "hot.txt"
        older.parent.mkdir()
        older.write_text("older")
        files(tmp_path).check()
        assert names_in(tmp_path) == ["hot.txt"]
        assert older.read_text() == "older"

    @pytest.mark.parametrize("format", FORMATS)
    def test_a_folder_in_the_place_of_any_file_is_told(self, tmp_path: Path, format: str) -> None:
        (tmp_path / "deep" / f"hot.{format}").mkdir(parents=True)
        with pytest.raises(OSError, match=rf"hot\.{format} cannot be written: it is a folder"):
            files(tmp_path).check()

    def test_file_in_the_place_of_the_folder_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "deep").touch()
        with pytest.raises(FileExistsError, match=r"hot\.txt cannot be written"):
            files(tmp_path).check()

    def test_a_name_that_the_file_system_does_not_take_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match="cannot be written: File name too long"):
            CaptureFiles(f"{tmp_path}/{'n' * 252}.txt", ["folded"], LOG).check()

    def test_a_store_is_asked_and_nothing_stays_there(self, store: FakeStore) -> None:
        written: list[str] = []
        store.on_written = lambda path, _: written.append(path)
        CaptureFiles("memory://shelf@bucket/hot.txt", FORMATS, LOG).check()
        assert written == ["/bucket/.hot.txt.probe"]
        assert store.names == []

    def test_a_store_that_refuses_is_told(self, store: FakeStore) -> None:
        store.refusal = PermissionError("AccessDenied")
        with pytest.raises(PermissionError, match=r"hot\.txt cannot be written: AccessDenied"):
            CaptureFiles("memory://shelf@bucket/hot.txt", FORMATS, LOG).check()


def test_a_capture_that_waited_for_its_page_is_as_it_was() -> None:
    read = NodeStats.read(stats({"node-1": 95, "gone": 5}))
    text = "::: {n\udcff\n" + report("node-1")
    capture = Capture(text, None, read, ("r",), START, "c", running_tasks=TASKS)
    before = capture.report
    capture.pack()
    assert (capture.text, capture.report) == (text, before)
    assert capture.report is not before


def large_capture(nodes: int, *, line: int = 0) -> Capture:
    """Return a capture with three threads a node."""
    names = [f"node-{number}" for number in range(nodes)]
    frames = [f"org.example.Search.run{number}(Search.java:{number})" for number in range(20)]
    stacks = [stack(10, f"a.B.c{number}(B)", *frames) for number in range(3)]
    text = "".join(
        section(name, *(thread(f"es[{name}][T#{number}]", cpu(90.0), one) for number, one in enumerate(stacks)))
        for name in names
    )
    text += f"   {'x' * line}\n" if line else ""
    return Capture(text, None, NodeStats.read(stats(dict.fromkeys(names, 95.0))), (), START)


def peak_of(folder: Path, captures: int, *, nodes: int, line: int = 0) -> float:
    """Return the peak of the memory that all files of a series take, in lengths of the text of one capture."""
    kept = CaptureFiles(f"{folder}/hot.txt", FORMATS, LOG, captures=captures)
    size = len(large_capture(nodes, line=line).text)
    tracemalloc.start()
    try:
        for number in range(1, captures + 1):
            kept.keep(large_capture(nodes, line=line), number)
        kept.finish()
        return tracemalloc.get_traced_memory()[1] / size
    finally:
        tracemalloc.stop()


@pytest.mark.long
def test_a_series_takes_no_more_memory_than_a_few_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The texts on the page are bounded, but not yet with so few captures.
    monkeypatch.setattr(document, "MOST_TEXT", 10_000)
    peak_of(tmp_path, 1, nodes=1)
    few = peak_of(tmp_path, 5, nodes=5, line=300_000)
    assert peak_of(tmp_path, 40, nodes=5, line=300_000) < few + 4


@pytest.mark.long
def test_a_large_report_takes_five_times_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the page takes beside its text is large for a report of this size, and small for one of megabytes.
    monkeypatch.setattr(document, "MOST_TEXT", 10_000)
    peak_of(tmp_path, 1, nodes=1)
    assert peak_of(tmp_path, 1, nodes=300) < 5
    # A line of megabytes, which no server prints.
    assert peak_of(tmp_path, 1, nodes=5, line=3_000_000) < 6.5
