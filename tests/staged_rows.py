"""How many rows a task has saved beside its destination so far."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from airflow_provider_mediaops.storage.backend import backend_of
from airflow_provider_mediaops.storage.files import path_of
from airflow_provider_mediaops.storage.log import find_chain, read_logs

if TYPE_CHECKING:
    from pathlib import Path


def staged_rows(destination: Path) -> int:
    """Return the most rows that any task has staged for a destination on the local disk."""
    folders = [each.name for each in destination.parent.glob(f".{destination.name}.staging/*") if each.is_dir()]
    return max((_rows_in(destination, folder) for folder in folders), default=0)


def _rows_in(destination: Path, folder: str) -> int:
    with closing(backend_of(path_of(destination), time.time)) as backend:
        chain = find_chain(read_logs(backend, folder, backend.names(folder)))
        return chain[-1].log.frame(chain[-1].last).rows if chain else 0
