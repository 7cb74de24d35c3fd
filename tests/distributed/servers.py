"""The servers that a distributed Airflow stands on: PostgreSQL and Redis from Debian's packages, on loopback ports."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.processes import Processes, free_port, tail

if TYPE_CHECKING:
    from collections.abc import Iterator

START_SECONDS = 30.0
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
        subprocess.run(command, check=True, capture_output=True, cwd=data, timeout=60)
        with Processes() as processes:
            server = [*as_user, str(programs / "postgres"), "-D", str(data / "db"), "-p", str(port), "-F"]
            server += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={data}"]
            log = Path(tempfile.mkdtemp(prefix="log-", dir=data)) / "postgresql.log"
            processes.start("postgresql", server, env=dict(os.environ), log=log)
            _wait_for(port, log)
            ready = [str(programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-t", "20"]
            subprocess.run(ready, check=True, capture_output=True, timeout=30)
            create = [str(programs / "createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", "airflow", "airflow"]
            subprocess.run(create, check=True, capture_output=True, timeout=30)
            yield f"airflow@127.0.0.1:{port}/airflow"
    finally:
        shutil.rmtree(data, ignore_errors=True)


@dataclass
class Redis:
    """A Redis that keeps its data on disk, and can be restarted."""

    folder: Path
    processes: Processes
    port: int
    _starts: int = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._starts += 1
        log = self.folder / f"redis-{self._starts}.log"
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        self.processes.start("redis", command, env=dict(os.environ), log=log)
        _wait_for(self.port, log)

    def restart(self) -> None:
        """Kill it as a power cut does, and start it with what it has on disk."""
        self.processes.stop()
        self.start()


@contextmanager
def redis() -> Iterator[Redis]:
    """Run a Redis."""
    folder = Path(tempfile.mkdtemp(prefix="mediaops-redis-"))
    try:
        with Processes(grace=0.0) as processes:
            server = Redis(folder, processes, free_port())
            server.start()
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline, f"Nothing listens on port {port}:\n{tail(log)}"
            time.sleep(0.1)
        else:
            return
