"""Reports from the JSON files of captures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.cluster.capture.model import Capture
from airflow_provider_mediaops.cluster.digest.capture_sums import CaptureSums, sums_of
from airflow_provider_mediaops.cluster.digest.report_json import report_of_json
from airflow_provider_mediaops.cluster.report_files import NoReportError

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_mediaops.cluster.hot_threads.model import HotThreadsReport

KINDS = ("cpu", "cpu-with-idle-threads", "wait", "block")


def of(report: HotThreadsReport) -> CaptureSums:
    return sums_of(report, path="x", time=1.0)


@pytest.mark.parametrize("name", [f"{version}-{kind}" for version in ("2.19.1", "3.8.0") for kind in KINDS])
def test_json_has_the_same_sums_as_the_text(data: Path, name: str) -> None:
    capture = Capture((data / "hot_threads" / f"opensearch-{name}.txt").read_text())
    report = report_of_json(json.loads(capture.content("json")))
    assert of(report) == of(capture.report)
    assert report.taken == capture.report.taken


@pytest.mark.parametrize("document", [None, [], {}, {"nodes": 5}, {"nodes": []}, {"nodes": [{}, 3]}, "text"])
def test_other_json_is_no_report(document: Any) -> None:
    with pytest.raises(NoReportError, match=r"^it is JSON, but"):
        report_of_json(document)


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [None], float("nan"), 1e300])
def test_values_of_another_type_are_left_out(odd: Any) -> None:
    group = {"snapshots": odd, "total": odd, "frames": odd}
    thread = dict.fromkeys(("name", "pool", "kind", "percent", "cpu_percent", "memory"), odd)
    for value in ({"name": "n", "threads": odd}, {"name": "n", "threads": [{**thread, "groups": [group]}, odd]}):
        of(report_of_json({"nodes": [value]}))
