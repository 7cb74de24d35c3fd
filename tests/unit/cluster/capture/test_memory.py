"""How much memory captures take, and how often a report is parsed: neither grows with the length of a series."""

from __future__ import annotations

import logging
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.cluster.capture.destination import FORMATS, CaptureDestination
from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.cluster.kinds_of_work.labels import label_of
from airflow_provider_mediaops.cluster.models import NodeStats
from airflow_provider_mediaops.cluster.page import document
from tests.unit.call_flows import START
from tests.unit.hot_threads_text import cpu, section, stack, thread
from tests.unit.search_cluster import stats

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

pytestmark = pytest.mark.long

LOG = logging.getLogger(__name__)


def captured(nodes: int, *, line: int = 0) -> Capture:
    """Return a capture with three threads a node."""
    names = [f"node-{number}" for number in range(nodes)]
    frames = [f"org.example.Search.run{number}(Search.java:{number})" for number in range(20)]
    text = "".join(
        section(
            name,
            *(
                thread(
                    f"opensearch[{name}][search][T#{number}]",
                    cpu(90.0 - number),
                    stack(10, f"a.B.c{number}(B)", *frames),
                )
                for number in range(3)
            ),
        )
        for name in names
    )
    text += f"   {'x' * line}\n" if line else ""
    return Capture(text, None, NodeStats.read(stats(dict.fromkeys(names, 95.0))), (), START)


def peak_of(folder: Path, captures: int, *, nodes: int, line: int = 0) -> float:
    """Return the peak of the memory that all files of a series take, in lengths of the text of one capture."""
    files = CaptureFiles(CaptureDestination(f"{folder}/hot.txt", FORMATS, captures), LOG)
    size = len(captured(nodes, line=line).text)
    tracemalloc.start()
    try:
        for number in range(1, captures + 1):
            files.keep(captured(nodes, line=line), number)
        files.finish()
        return tracemalloc.get_traced_memory()[1] / size
    finally:
        tracemalloc.stop()


def test_a_series_takes_no_more_memory_than_a_few_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The texts on the page are bounded, but not yet with so few captures.
    monkeypatch.setattr(document, "MOST_TEXT", 10_000)
    peak_of(tmp_path, 1, nodes=1)
    few = peak_of(tmp_path, 5, nodes=5, line=300_000)
    assert peak_of(tmp_path, 40, nodes=5, line=300_000) < few + 4


def test_a_large_report_takes_five_times_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the page takes beside its text is large for a report of this size, and small for one of megabytes.
    monkeypatch.setattr(document, "MOST_TEXT", 10_000)
    peak_of(tmp_path, 1, nodes=1)
    assert peak_of(tmp_path, 1, nodes=300) < 5
    assert peak_of(tmp_path, 1, nodes=5, line=3_000_000) < 5.5


def test_a_capture_is_parsed_once_for_its_files_and_once_for_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[str] = []

    def counted(text: str) -> HotThreadsReport:
        texts.append(text)
        return parse(text)

    monkeypatch.setattr("airflow_provider_mediaops.cluster.hot_threads.parser.parse", counted)
    monkeypatch.setattr("airflow_provider_mediaops.cluster.hot_threads.parse", counted)
    files = CaptureFiles(CaptureDestination(f"{tmp_path}/hot.txt", FORMATS, 3), LOG)
    captures = [captured(nodes) for nodes in (1, 2, 3)]
    for number, capture in enumerate(captures, 1):
        files.keep(capture, number)
    files.finish()
    assert sorted(texts) == sorted(2 * [capture.text for capture in captures])


def test_labels_of_ever_other_stacks_take_a_few_megabytes() -> None:
    tracemalloc.start()
    try:
        for number in range(6_000):
            label_of([f"org.example.Search{number}.run{line}(Search.java:{line})" for line in range(20)])
        assert tracemalloc.get_traced_memory()[0] < 10_000_000
    finally:
        tracemalloc.stop()
