"""Nothing that Airflow writes down holds a secret of a connection."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from airflow_provider_mediaops.sandbox import cluster
from tests.system.connections import SECRETS

if TYPE_CHECKING:
    from tests.system.running import Runs, WatchedAirflow

BASIC = base64.b64encode(f"{cluster.LOGIN}:{cluster.PASSWORD}".encode()).decode()


@pytest.fixture(scope="module")
def written(runs: Runs, airflow: WatchedAirflow) -> dict[Path, bytes]:
    """All that the components, the tasks and the triggers have left: their logs, and the metadata database."""
    runs.all_ended()
    found = {}
    for file in airflow.home.rglob("*"):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # SQLite's own files come and go
            found[file] = file.read_bytes()
    return found


@pytest.mark.parametrize("secret", [*SECRETS, BASIC])
def test_no_secret_is_written_down(written: dict[Path, bytes], secret: str) -> None:
    forms = {secret.encode(), quote(secret, safe="").encode()}
    assert [file.name for file, content in written.items() if any(form in content for form in forms)] == []


def test_searched_texts_are_those_that_airflow_wrote(written: dict[Path, bytes], airflow: WatchedAirflow) -> None:
    in_database = b"".join(content for file, content in written.items() if file.name.startswith("airflow.db"))
    in_task_logs = b"".join(content for file, content in written.items() if file.is_relative_to(airflow.home / "logs"))
    assert b"mediaops_books_default" in in_database
    assert b"PermissionDeniedError" in in_task_logs
