"""A real Redis of its own on a free loopback port, from Debian's package redis-server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scripts.processes import free_port, tail

PROGRAM = shutil.which("redis-server")
START_SECONDS = 240.0


@dataclass
class RedisServer:
    """A Redis that can be stopped and started again."""

    folder: Path
    options: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        assert PROGRAM
        log = self.folder / "redis.log"
        command = [PROGRAM, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command += ["--logfile", str(log), "--save", "", *self.options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, tail(log)
            assert time.monotonic() < deadline, tail(log)
            time.sleep(0.01)

    def stop(self) -> None:
        """Kill it as a power cut does."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        # Whatever it says, be it that a password is needed; but for the time in which it reads its data.
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                answer = connection.recv(64)
                return bool(answer) and not answer.startswith(b"-LOADING")
        except OSError:
            return False


@contextmanager
def running_redis(folder: Path, *options: str) -> Iterator[RedisServer]:
    """Run a Redis in a folder."""
    server = RedisServer(folder, options)
    try:
        server.start()
        yield server
    finally:
        server.stop()
