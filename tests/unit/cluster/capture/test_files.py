"""The files of captures: their names, in which order they are written, and what is found out beforehand."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.cluster.capture.destination import FORMATS, CaptureDestination
from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.capture.packed import PackedCapture
from airflow_provider_mediaops.cluster.models import NodeStats
from tests.unit.call_flows import START
from tests.unit.cluster.task_values import TASKS
from tests.unit.search_cluster import report, stats
from tests.unit.storage.conftest import store as store  # noqa: PLC0414 a fixture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.unit.storage.conftest import Store

LOG = logging.getLogger(__name__)


def captured(*nodes: str) -> Capture:
    return Capture(report(*nodes), None, NodeStats.read(stats(dict.fromkeys(nodes, 95))), (), START)


def files(folder: Path, formats: str | Sequence[str] = FORMATS, captures: int = 1) -> CaptureFiles:
    return CaptureFiles(CaptureDestination(f"{folder}/deep/hot.txt", formats, captures), LOG)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


class TestOne:
    def test_all_formats_stand_side_by_side(self, tmp_path: Path) -> None:
        kept = files(tmp_path)
        told = kept.keep(captured("node-1"), 1)
        kept.finish()
        assert names_in(tmp_path) == ["hot.folded", "hot.html", "hot.json", "hot.kinds", "hot.txt"]
        written = {name: Path(path).read_text() for name, path in told["paths"].items()}
        assert written["txt"] == report("node-1")
        assert json.loads(written["json"])["nodes"][0]["name"] == "node-1"
        assert written["folded"].startswith("node-1;search;")
        assert written["kinds"] == f"Search: which kind is not visible;{written['folded']}"
        assert "<title>Hot threads of docs</title>" in written["html"]

    def test_capture_is_told_by_its_summary_its_time_and_its_files(self, tmp_path: Path) -> None:
        capture = captured("node-1")
        assert files(tmp_path, ["txt"]).keep(capture, 1) == {
            "paths": {"txt": f"{tmp_path}/deep/hot.txt"},
            "taken": "2026-03-14T20:00:00.000+00:00",
            **capture.summary(),
        }

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

    def test_without_a_capture_there_is_no_page(self, tmp_path: Path) -> None:
        files(tmp_path).finish()
        assert names_in(tmp_path) == []


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
            CaptureFiles(CaptureDestination(f"{tmp_path}/{'n' * 252}.txt", ["folded"]), LOG).check()

    def test_a_store_is_asked_and_nothing_stays_there(self, store: Store) -> None:
        CaptureFiles(CaptureDestination("memory://shelf@bucket/hot.txt", FORMATS), LOG).check()
        assert len(store.puts) == 1
        assert store.names == []

    def test_a_store_that_refuses_is_told(self, store: Store) -> None:
        store.refusal = PermissionError("AccessDenied")
        with pytest.raises(PermissionError, match=r"hot\.txt cannot be written: AccessDenied"):
            CaptureFiles(CaptureDestination("memory://shelf@bucket/hot.txt", FORMATS), LOG).check()


def test_a_capture_that_waited_for_its_page_is_as_it_was() -> None:
    read = NodeStats.read(stats({"node-1": 95, "gone": 5}))
    text = "::: {n\udcff\n" + report("node-1")
    capture = Capture(text, None, read, ("r",), START, "c", running_tasks=TASKS)
    packed = PackedCapture.of(capture, "/out/hot.txt")
    assert (packed.text, packed.report, packed.cpu) == (capture.text, capture.report, read.nodes)
    assert (packed.taken, packed.path, packed.cause, packed.running_tasks) == (START, "/out/hot.txt", "c", TASKS)
    first, missing = packed.remarks
    assert (first, missing[:24]) == ("r", "Not in the report: gone.")
