"""Sixty-four processes take slots of one rate at the same moment: each gets its own, and none is left out."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.redis_server import PROGRAM, running_redis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

ROOT = Path(__file__).parents[2]
PROCESSES, EACH = 64, 10
APART = 1.03
# The processes begin together, when the pipe that each of them reads is closed. The client of Redis is loaded before:
# sixty-four processes would each take a fifth of a second for it.
_TAKE = f"""
import os, sys
from importlib.util import find_spec
from airflow_provider_mediaops.http.rate_limit import redis_backend
from airflow_provider_mediaops.http.rate_limit.redis_backend import RedisBackend
from airflow_provider_mediaops.http.rate_limit.schedule import begin, from_text, reserve, to_text
from airflow_provider_mediaops.http.rate_limit.sqlite_backend import SqliteBackend
from pathlib import Path
if find_spec("redis"):
    import redis
# A process waits its turn for as long as the machine is busy.
redis_backend.BUSY_SECONDS = 240.0

def change(text, now, age):
    # The time stands still, so that no machine is too busy to take the last slot before the first is due.
    state, answer = reserve(from_text(text, 1_000.0) if text else begin(1_000.0, 1.0), 1_000.0, 1.0)
    return to_text(state), answer.slot

start, closed = os.pipe()
children = []
for _ in range({PROCESSES}):
    child = os.fork()
    if not child:
        os.close(closed)
        os.read(start, 1)
        backend = {{store}}
        for _ in range({EACH}):
            os.write(1, f"{{{{backend.update('key', change)}}}}\\n".encode())
        os._exit(0)
    children.append(child)
os.close(closed)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""


@contextmanager
def sqlite(folder: Path) -> Iterator[str]:
    yield f"SqliteBackend(Path({str(folder / 'rates.db')!r}), busy_seconds=240.0)"


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    if PROGRAM is None:
        pytest.skip("redis-server is not installed")
    with running_redis(folder) as server:
        yield f"RedisBackend({server.url!r})"


@pytest.mark.parametrize("store", [sqlite, redis])
def test_each_process_gets_slots_of_its_own(
    tmp_path: Path, store: Callable[[Path], AbstractContextManager[str]]
) -> None:
    with store(tmp_path) as made:
        script = _TAKE.format(store=made)
        took = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
        )
    assert took.returncode == 0, took.stderr

    positions = sorted(float(line) for line in took.stdout.splitlines())
    assert len(positions) == PROCESSES * EACH
    assert [later - earlier for earlier, later in pairwise(positions)] == pytest.approx([APART] * (len(positions) - 1))
