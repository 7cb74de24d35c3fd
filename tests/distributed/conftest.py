"""One Airflow with Celery workers, its PostgreSQL and Redis, and a sandbox, all for this suite alone."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.sandbox.server import SandboxServer
from tests.distributed.celery_airflow import celery_airflow
from tests.distributed.postgresql_server import postgresql, postgresql_programs
from tests.redis_server import RedisServer, running_redis
from tests.unit.no_limit import NoLimit

if TYPE_CHECKING:
    from tests.system.running import WatchedAirflow


@dataclass(frozen=True)
class Installation:
    """
    Everything that runs.

    :param airflow: the components, among them the two workers.
    :param redis: carries tasks to the workers and keeps the key's rate.
    :param output: the folder that the tasks read from and write to.
    """

    airflow: WatchedAirflow
    sandbox: SandboxServer
    redis: RedisServer
    output: Path


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    missing = [name for name in ("redis-server", "setpriv") if shutil.which(name) is None]
    missing += ["PostgreSQL"] if postgresql_programs() is None else []
    missing += [name for name in ("celery", "psycopg2", "redis") if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    scratch = tmp_path_factory.mktemp("distributed")
    output = scratch / "output"
    output.mkdir()
    folder = scratch / "redis"
    folder.mkdir()
    # On the disk at once: what the broker has taken on outlives its restart.
    kept = ("--appendonly", "yes", "--appendfsync", "always")
    with (
        SandboxServer() as sandbox,
        postgresql() as database,
        running_redis(folder, *kept) as server,
    ):
        sandbox.state.books_rate = NoLimit()
        books = json.loads(sandbox.connections()["AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT"])
        env = {
            "AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT": json.dumps(books),
            "AIRFLOW__MEDIAOPS__RATE_LIMIT_STORE": f"redis://127.0.0.1:{server.port}/1",
            "MEDIAOPS_OUTPUT": str(output),
        }
        dags = Path(__file__).parent / "dags"
        with celery_airflow(scratch / "home", dags=dags, env=env, database=database, broker=server) as airflow:
            yield Installation(airflow, sandbox, server, output)
