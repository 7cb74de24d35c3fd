"""The tasks that are stopped in each of their phases; each asks a service of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sandbox.books import sample_isbns
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

ISBNS = sample_isbns(12)
_LONG_SECONDS = 200.0


def make(name: str, folder: Path) -> BaseOperator:
    """Make a task; the part of its name after the operator's is its phase."""
    operator, _, phase = name.partition(": ")
    if phase == "publishing":
        _publish_slowly(folder)
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
        (folder / "publishing").touch()
        deadline = time.monotonic() + _LONG_SECONDS
        while not (folder / "go on").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return publish(self)

    cast("Any", Staging).publish = slowly
