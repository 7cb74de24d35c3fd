"""Reports that real servers wrote and that nobody here shaped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.cluster.hot_threads.parser import parse

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

# By the start of the file's name: threads by node, groups, frames, and the lines that something is wrong with.
SHARED = {
    "002-": ([3, 3], 6, 38, []),
    "005-": ([2], 3, 69, []),
    "007-": ([1], 3, 140, []),
    "011-": ([1], 1, 2, []),
    "013-": ([0, 1, 1], 2, 11, []),
    "015-": ([1], 10, 0, []),
    "017-": ([0], 0, 0, []),
    "018-": ([2], 3, 21, [29]),
    "022-": ([1], 1, 9, []),
    "023-": ([1], 2, 3, [5, 8, 9, 11]),
    "026-": ([1], 1, 9, []),
    "028-": ([1], 1, 1, [4]),
}
RECORDED = Path(__file__).parents[3] / "data" / "hot_threads"


def read(path: Path) -> tuple[str, HotThreadsReport]:
    text = path.read_bytes().decode()
    report = parse(text)
    assert report.render() == text
    return text, report


def counts(report: HotThreadsReport) -> tuple[list[int], int, int, list[int]]:
    groups = [group for node in report.nodes for thread in node.threads for group in thread.groups]
    return (
        [len(node.threads) for node in report.nodes],
        len(groups),
        sum(len(group.frames) for group in groups),
        [found.line for found in report.unparsed],
    )


def test_all_shared_reports(shared_data: Path) -> None:
    paths = sorted((shared_data / "hot_threads").glob("*.txt"))
    assert {path.name: counts(read(path)[1]) for path in paths} == {path.name: SHARED[path.name[:4]] for path in paths}
    assert len(paths) == len(SHARED)


def test_elasticsearch_9_in_a_shared_report(shared_data: Path) -> None:
    (path,) = (shared_data / "hot_threads").glob("013-*")
    _, report = read(path)
    assert [(node.name, node.version, node.roles) for node in report.nodes] == [
        (f"elasticsearch-es-master-{number}", "9.1.0", "mr") for number in (2, 0, 1)
    ]
    threads = [thread for node in report.nodes for thread in node.threads]
    assert [(thread.pool, thread.percent, thread.idle_percent, thread.other_percent) for thread in threads] == [
        ("transport_worker", 0.0, 100.0, None),
        ("readiness-service", 100.0, None, 100.0),
    ]


def test_elided_stacks_in_a_shared_report(shared_data: Path) -> None:
    (path,) = (shared_data / "hot_threads").glob("023-*")
    _, report = read(path)
    assert [(found.text.strip(), found.reason) for found in report.unparsed] == [
        ("8/10 snapshots sharing following 29 elements", "29 stack frames announced, 2 found"),
        ("# ...", "not a line of a hot-threads report"),
        ("2/10 snapshots sharing following 37 elements", "37 stack frames announced, 1 found"),
        ("# ...", "not a line of a hot-threads report"),
    ]


@pytest.mark.parametrize("path", sorted(RECORDED.glob("opensearch-*.txt")), ids=lambda path: path.stem)
def test_report_of_the_test_cluster(path: Path) -> None:
    text, report = read(path)
    lines = text.splitlines()
    threads, groups, frames, unparsed = counts(report)

    assert unparsed == []
    assert [node.header for node in report.nodes] == [line[4:] for line in lines if line.startswith("::: ")]
    assert sum(threads) == sum(" usage by thread '" in line for line in lines)
    assert groups == sum(line.endswith((" elements", "unique snapshot")) for line in lines)
    assert frames == sum(line.startswith(" " * 7) for line in lines)
    for node in report.nodes:
        assert node.ephemeral_id
        assert node.host == "127.0.0.1"
        assert node.attributes == {"shard_indexing_pressure_enabled": "true"}
        assert {thread.node_name for thread in node.threads} <= {node.name}
        assert all(thread.pool and thread.kind == path.stem.split("-")[2] for thread in node.threads)
