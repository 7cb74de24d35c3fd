"""An Airflow whose tasks run on two Celery workers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.local_airflow import COMPONENTS
from tests.system.running import WatchedAirflow

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

WORKERS = ("worker-1", "worker-2")


def celery_airflow(
    home: Path, *, dags: Path, env: Mapping[str, str], database: str, broker: RedisServer
) -> WatchedAirflow:
    """Describe an Airflow with two workers of four tasks each; it is started by its ``with`` block."""
    settings = {
        "CORE__EXECUTOR": "CeleryExecutor",
        "DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}",
        "CELERY__BROKER_URL": broker.url,
        "CELERY__RESULT_BACKEND": f"db+postgresql://{database}",
        # A worker takes no task that it has no process for: another may have one.
        "CELERY__WORKER_PREFETCH_MULTIPLIER": "1",
        "CELERY__SYNC_PARALLELISM": "1",
        # A task whose worker was killed is noticed by the heartbeats that it no longer sends. The time limit is long
        # enough that no task is taken for dead because the machine is busy.
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
    }
    return WatchedAirflow(
        home,
        dags=dags,
        env={**{f"AIRFLOW__{name}": value for name, value in settings.items()}, **env},
        parallelism=16,
        components=COMPONENTS | {worker: _worker(worker) for worker in WORKERS},
    )


def _worker(name: str) -> tuple[str, ...]:
    return ("celery", "worker", "--concurrency", "4", "--celery-hostname", f"{name}@%h", "--skip-serve-logs")
