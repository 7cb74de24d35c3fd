"""The tasks that are stopped in each of their phases; each asks a service of its own."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.cluster_digest import HotThreadsDigestOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from tests.unit.cluster.digest.captured_days import MONDAY, SEARCH, hot, text_at, write_capture

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import BaseOperator

    from airflow_provider_mediaops.cluster.digest.source import FoundCapture

ISBNS = sample_isbns(12)
#: How many captures a digest has, how many it saves at a time, and within which of them it is stopped.
CAPTURES, STOPPED_AT = 7, 4
_LONG_SECONDS = 200.0


def make(name: str, folder: Path) -> BaseOperator:
    """Make a task; the part of its name after the operator's is its phase."""
    operator, _, phase = name.partition(": ")
    if phase == "publishing":
        _publish_slowly(folder)
    if operator == "digest":
        _write_captures(folder / "captures")
    if phase == "reading captures":
        _read_slowly(folder)
    kinds: dict[str, tuple[type[BaseOperator], dict[str, Any]]] = {
        "bulletin": (PostBulletinOperator, {"text": "Hi"}),
        "bulletin with a journal": (PostBulletinOperator, {"text": "Hi", "journal": str(folder / "journal")}),
        "export": (
            ExportSubscriptionsOperator,
            {"destination": str(folder / "subscriptions.jsonl"), "mine": True},
        ),
        "capture": (
            CaptureHotThreadsOperator,
            {"destination": str(folder / "capture.txt"), "interval": "10ms", **_of_capture(phase)},
        ),
        "digest": (
            HotThreadsDigestOperator,
            {"source": str(folder / "captures"), "destination": str(folder / "digest.html")},
        ),
        "enrichment": (EnrichIsbnsOperator, {"destination": str(folder / "books.jsonl"), "isbns": ISBNS}),
        "CPU sensor": (ClusterCpuSensor, {"threshold": 99.9}),
    }
    kind, arguments = kinds[operator]
    if "sensor" in operator:
        arguments = {"poke_interval": _LONG_SECONDS, **arguments}
    return kind(task_id="task", retries=3, **arguments)


def _of_capture(phase: str) -> dict[str, Any]:
    if phase == "waiting for a spike":
        return {"when_cpu_above": 99.9, "poll_interval": _LONG_SECONDS, "wait_timeout": 2 * _LONG_SECONDS}
    if phase == "between captures":
        return {"captures": 2, "every": _LONG_SECONDS}
    return {}


def _publish_slowly(folder: Path) -> None:
    """Let the first publication last until the test allows it to go on."""
    from airflow_provider_mediaops.storage.dataset import Staging

    publish: Any = Staging.publish

    def slowly(self: Staging) -> Any:
        _wait_at(folder, "publishing")
        return publish(self)

    cast("Any", Staging).publish = slowly


def _read_slowly(folder: Path) -> None:
    """Let one capture of a digest last until the test allows it to go on."""
    from airflow_provider_mediaops.cluster.digest import attempt

    read, done = cast("Any", attempt).read_captures, 0

    def slowly(capture: FoundCapture, *others: Any) -> Any:
        nonlocal done
        done += 1
        if done == STOPPED_AT:
            _wait_at(folder, "reading captures")
        return read(capture, *others)

    cast("Any", attempt).read_captures = slowly


def _wait_at(folder: Path, phase: str) -> None:
    (folder / phase).touch()
    deadline = time.monotonic() + _LONG_SECONDS
    while not (folder / "go on").exists() and time.monotonic() < deadline:
        time.sleep(0.01)


def _write_captures(folder: Path) -> None:
    for number in range(CAPTURES):
        at = MONDAY + timedelta(hours=number)
        write_capture(folder, at, text_at(at, hot("data-1", "search", 50, SEARCH)))
