"""The database that a distributed Airflow stands on: PostgreSQL from Debian's packages, on a free loopback port."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.processes import Processes, free_port, tail

START_SECONDS = 600.0
_PROGRAMS = Path("/usr/lib/postgresql")


def postgresql_programs() -> Path | None:
    """Find the folder of the newest PostgreSQL's programs; None where none is installed."""
    return max(_PROGRAMS.glob("*/bin"), default=None, key=lambda folder: int(folder.parent.name))


@contextmanager
def postgresql() -> Iterator[str]:
    """Run a PostgreSQL with one empty database, and give its address without a scheme."""
    programs = postgresql_programs()
    assert programs, "PostgreSQL is not installed"
    # It runs as nobody's superuser, so its files stand where its own user may go.
    data = Path(tempfile.mkdtemp(prefix="mediaops-postgresql-"))
    as_user: list[str] = []
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(data, user.pw_uid, user.pw_gid)
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"]
    port = free_port()
    try:
        command = [*as_user, str(programs / "initdb"), "-D", str(data / "db"), "-U", "airflow", "-A", "trust", "-N"]
        subprocess.run(command, check=True, capture_output=True, cwd=data, timeout=240)
        with Processes() as processes:
            server = [*as_user, str(programs / "postgres"), "-D", str(data / "db"), "-p", str(port), "-F"]
            server += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={data}"]
            log = Path(tempfile.mkdtemp(prefix="log-", dir=data)) / "postgresql.log"
            processes.start("postgresql", server, env=dict(os.environ), log=log)
            ready = [str(programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-t", "20"]
            _wait_until_ready(ready, processes, log)
            create = [str(programs / "createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", "airflow", "airflow"]
            subprocess.run(create, check=True, capture_output=True, timeout=240)
            yield f"airflow@127.0.0.1:{port}/airflow"
    finally:
        shutil.rmtree(data, ignore_errors=True)


def _wait_until_ready(ask: list[str], processes: Processes, log: Path) -> None:
    """Wait until it takes connections: it listens, and refuses them, before it has started."""
    deadline = time.monotonic() + START_SECONDS
    while subprocess.run(ask, check=False, capture_output=True, timeout=240).returncode:
        processes.check()
        assert time.monotonic() < deadline, f"PostgreSQL is not ready:\n{tail(log)}"
        time.sleep(0.1)
