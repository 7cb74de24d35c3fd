"""Made-up time, scratch files in memory if the machine can, and no log."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_mediaops.hooks.base import ServiceHook
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.triggers.dataset import DatasetTrigger
from tests.models.attempts import make_up_time, use_made_up_services
from tests.unit.conftest import Supervisor

_MEMORY = Path("/dev/shm")  # noqa: S108 the folder of the system for files in memory


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Return a folder for the files of all examples."""
    folder = Path(tempfile.mkdtemp(prefix="mediaops-models-", dir=_MEMORY if _MEMORY.is_dir() else None))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def made_up_world(monkeypatch: pytest.MonkeyPatch, scratch: Path) -> None:
    """Let everything be of the made-up time."""
    monkeypatch.setattr(
        "airflow.sdk.execution_time.task_runner.SUPERVISOR_COMMS", Supervisor(monkeypatch), raising=False
    )
    silent = logging.Logger("models", logging.CRITICAL)  # noqa: LOG001
    for writer in (ExportSubscriptionsOperator, PostBulletinOperator, DatasetTrigger, ServiceHook):
        monkeypatch.setattr(writer, "log", silent, raising=False)
    make_up_time(monkeypatch, scratch)
    use_made_up_services(monkeypatch)
