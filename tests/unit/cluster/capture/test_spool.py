"""Captures that wait on the disk for their page: what comes back, and that they take no memory meanwhile."""

from __future__ import annotations

import tempfile
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.capture.spool import CaptureSpool
from airflow_provider_mediaops.cluster.models import NodeStats
from tests.unit.call_flows import START
from tests.unit.hot_threads_text import cpu, section, stack, thread
from tests.unit.search_cluster import report, stats

if TYPE_CHECKING:
    from pathlib import Path

NODES = [f"node-{number}" for number in range(10)]


def large(number: int) -> Capture:
    """A capture of ten nodes and 300 kB, other threads of which are hot in each capture."""
    stacks = stack(10, f"org.example.Query.method{number % 7}(Q.java:1)", *["org.example.Search.run(S.java:9)"] * 20)
    text = "".join(section(node, thread(f"[{node}][search][T#{number % 5}]", cpu(50.0), stacks)) for node in NODES)
    read = NodeStats.read(stats({node: float(number) for node in NODES}))
    text += f"   {'x' * 300_000}\n"
    return Capture(text, None, read, (f"Remark {number}.",), START, "at once")


def test_captures_come_back_as_they_were() -> None:
    spool = CaptureSpool()
    read = NodeStats.read(stats({"node-1": 95}))
    first = Capture("::: {n\udcff\n" + report("node-1"), None, read, ("r",), START, "c")
    spool.add(first, "/out/hot.txt")
    spool.add(Capture(report("node-2")), None)
    one, two = spool
    assert (one.text, one.taken, one.remarks, one.path, one.cause) == (first.text, START, ("r",), "/out/hot.txt", "c")
    assert one.report.nodes[-1].threads[0].amount == 97.5
    assert one.cpu == list(read.nodes)
    assert (two.text, two.cpu, two.path) == (report("node-2"), None, None)
    assert len(spool) == 2
    assert one.text == first.text


def test_fifty_captures_take_no_more_memory_than_a_few_texts() -> None:
    capture = large(0)
    size, spool, warm = len(capture.text), CaptureSpool(), CaptureSpool()
    # What the first use imports is no part of what captures take.
    warm.add(capture, None)
    assert [len(one.text) for one in warm] == [size]
    tracemalloc.start()
    try:
        for _ in range(50):
            spool.add(capture, None)
        assert sum(len(one.text) for one in spool) == 50 * size
        assert tracemalloc.get_traced_memory()[1] < 10 * size
    finally:
        tracemalloc.stop()


def test_nothing_is_left_in_the_folder_of_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spool = CaptureSpool()
    for _ in range(3):
        spool.add(large(1), None)
    assert list(tmp_path.iterdir()) == []
    spool.close()


@pytest.fixture
def _full(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "write", fail)


@pytest.mark.usefixtures("_full")
def test_a_full_disk_names_the_folder() -> None:
    with pytest.raises(OSError, match=r"cannot be kept in .*: No space left on device\. .*TMPDIR") as caught:
        CaptureSpool().add(Capture(report("node-1")), None)
    assert caught.value.errno == 28
