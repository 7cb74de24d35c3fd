"""A real Redis of its own on a free loopback port, from Debian's package redis-server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scripts.processes import tail

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = shutil.which("redis-server")
START_SECONDS = 240.0


@dataclass
class RedisServer:
    """
    A Redis that can be stopped and started again.

    :param folder: where it keeps what it keeps.
    :param options: options of its command line.
    """

    folder: Path
    options: tuple[str, ...] = ()
    _process: subprocess.Popen[bytes] | None = None
    # It never listens. While it is there, the system gives its port to nobody who asks for a free one, and Redis, which
    # names the port, can have it (SO_REUSEADDR), also after it was stopped.
    _held: socket.socket = field(default_factory=socket.socket)

    def __post_init__(self) -> None:
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))

    @property
    def port(self) -> int:
        """Its port, which is this server's alone."""
        return int(self._held.getsockname()[1])

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

    def close(self) -> None:
        """Stop it, and let the port go."""
        self.stop()
        self._held.close()

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
        server.close()
