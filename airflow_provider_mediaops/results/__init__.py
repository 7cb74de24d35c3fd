"""
Types of the results of operators and sensors, and of the payload of a trigger's event, for annotations in your tasks.

An editor then completes the keys, and a type checker knows their values::

    @task
    def check(summary: ExportSummary) -> None:
        if not summary["complete"]: ...

At run time they are plain dictionaries, as an XCom has them.
"""

from __future__ import annotations

from airflow_provider_mediaops.results.digest import (
    DamagedFile,
    DigestPaths,
    DigestSeries,
    HotThreadsDigest,
    RecurringFrame,
    RecurringTasks,
    RecurringWork,
)
from airflow_provider_mediaops.results.services import (
    CapturedNode,
    CaptureFailure,
    CapturePaths,
    CaptureSummary,
    EnrichmentSummary,
    ExportSummary,
    FoundSubscription,
    HotNodeReading,
    HotNodesEvent,
    HotThreadSummary,
    KindOfWorkSummary,
    NodeReading,
    SingleCapture,
    TaskGroupSummary,
)

__all__ = [
    "CaptureFailure",
    "CapturePaths",
    "CaptureSummary",
    "CapturedNode",
    "DamagedFile",
    "DigestPaths",
    "DigestSeries",
    "EnrichmentSummary",
    "ExportSummary",
    "FoundSubscription",
    "HotNodeReading",
    "HotNodesEvent",
    "HotThreadSummary",
    "HotThreadsDigest",
    "KindOfWorkSummary",
    "NodeReading",
    "RecurringFrame",
    "RecurringTasks",
    "RecurringWork",
    "SingleCapture",
    "TaskGroupSummary",
]
