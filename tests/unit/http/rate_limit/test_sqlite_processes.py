"""The processes and threads that share schedules in a file."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_provider_mediaops.http.rate_limit.operations import Reserve

ROOT = Path(__file__).parents[4]
# Slots so far apart that no machine is too busy to tell one from the next.
NEXT = Reserve(1_000.0, 1, 900.0, 1e9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "rates.db"


_FORK = """
import os, sys
from airflow_provider_mediaops.http.rate_limit.operations import ExhaustQuota, Release, Reserve
from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore
store = SqliteStore(sys.argv[1])
take = lambda: store.apply("key", Reserve(1000.0, 1, 900.0, 1e9), 1.0).wait
take()
parent = store._file.get()
with parent.lock:  # as another thread may hold it when a process forks
    child = os.fork()
    if not child:
        wait = take()
        os._exit(0 if store._file.get() is not parent and 500.0 < wait <= 1001.0 else 1)
    _, status = os.waitpid(child, 0)
sys.exit(status or not 1500.0 < take() <= 2001.0)
"""


def test_a_process_that_was_forked_has_a_connection_of_its_own(path: Path) -> None:
    subprocess.run([sys.executable, "-c", _FORK, str(path)], cwd=ROOT, check=True, timeout=240)


def test_a_process_that_ends_closes_the_file(path: Path) -> None:
    script = _SEND.replace("range(8)", "range(1)")
    subprocess.run([sys.executable, "-c", script, f"sqlite:///{path}"], cwd=ROOT, check=True, timeout=240)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


_SEND = """
import sys
from airflow_provider_mediaops.http.drivers import run
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.rate_limit.store_by_address import store_at
limiter = limiter_for("service", "key", 10.0, store_at(sys.argv[1]))
for _ in range(8):
    print(run(limiter.acquire(), None).granted.at)
"""

_RESERVE = """
import sys
from pathlib import Path
from airflow_provider_mediaops.http.rate_limit.operations import Reserve
from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore
store = SqliteStore(Path(sys.argv[1]), busy_seconds=240.0)
for _ in range(25):
    print(store.apply("key", Reserve(1000.0, 1, 900.0, 1e9), 1000.0).position)
"""


def printed_by_processes(script: str, argument: str) -> list[float]:
    """Run four processes at once; return the numbers that they print, in order."""
    command = [sys.executable, "-c", script, argument]
    started = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate(timeout=240)[0] for process in started]
    return sorted(float(number) for output in outputs for number in output.split())


@pytest.mark.long
def test_processes_keep_the_rate_together(path: Path) -> None:
    granted = printed_by_processes(_SEND, f"sqlite:///{path}")
    assert len(granted) == 32
    assert min(later - earlier for earlier, later in zip(granted, granted[10:], strict=False)) >= 1.0


def test_processes_get_successive_slots(path: Path) -> None:
    positions = printed_by_processes(_RESERVE, str(path))
    gaps = [later - earlier for earlier, later in pairwise(positions)]
    assert gaps == pytest.approx([1_000.0] * 99)
