"""Processes that are started together and stopped together, with everything that they started in turn."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from typing_extensions import Self

GRACE_SECONDS = 3.0
KILL_SECONDS = 240.0
POLL_SECONDS = 0.1
LOG_TAIL_LINES = 30
# Well-known servers have lower ones.
_LOWEST_PORT = 20_000


class ProcessEndedError(RuntimeError):
    """A process that should be running has ended."""


class LeftRunningError(RuntimeError):
    """Some processes could not be ended."""


def free_port() -> int:
    """
    Find a TCP port of the loopback address that nothing listens on, for a program that is started later.

    Until this process ends, nobody else who asks here gets it; and the system gives it to no connection and to no
    server that has it choose a port.
    """
    for port in _ports_in_random_order():
        # Other processes that ask here see who has a name, which ends with its process; only Linux has such names.
        name = socket.socket(socket.AF_UNIX)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError), socket.socket() as probe:
            stack.callback(name.close)
            if sys.platform == "linux":
                name.bind(f"\0mediaops-port-{port}")
            # As servers do: a port whose last connections are only remembered is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            stack.pop_all()
            # Open until this process ends, without an object that Python would complain of then.
            name.detach()
            return port
    raise RuntimeError("There is no free port.")


def _ports_in_random_order() -> Iterator[int]:
    """Yield the ports below those that the system gives to connections and to servers that ask for any."""
    chosen_by_system = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(chosen_by_system.read_text(encoding="ascii").split()[0]) if chosen_by_system.exists() else 32_768
    ports = list(range(min(_LOWEST_PORT, first - 1), first))
    random.shuffle(ports)
    yield from ports


def tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """
    Read the end of a log file.

    :param lines: how many lines at most.
    """
    if not log.exists():
        return f"({log} was never written)"
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


class Processes:
    """
    A set of running programs, each in a session of its own, none of which outlives the `with` block.

    A session is inherited by everything a program starts, even if its parent is gone or its process group
    has changed, so nothing is missed at the end. The block ends on SIGTERM as it does on Ctrl-C.

    :param grace: the seconds that programs get to end by themselves.
    """

    def __init__(self, *, grace: float = GRACE_SECONDS) -> None:
        self._grace = grace
        self._running: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
        self._until_the_end = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._until_the_end.enter_context(_handled(_exit_on_signal, signal.SIGTERM))
        # Started in the background by a shell, a program would ignore this one.
        self._until_the_end.enter_context(_handled(signal.default_int_handler, signal.SIGINT))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A second Ctrl-C does not interrupt the clearing up.
        with self._until_the_end, _handled(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM):
            self.stop()

    def start(self, name: str, command: Sequence[str], *, env: Mapping[str, str], log: Path) -> None:
        """Start a program in the background."""
        # A signal between the two steps would end the block without this program.
        with log.open("wb") as output, _held(signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen(
                command,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running[name] = (process, log)

    def check(self) -> None:
        """Make sure that everything started is still running."""
        for name, (process, log) in self._running.items():
            code = process.poll()
            if code is not None:
                raise ProcessEndedError(f"{name} ended with exit code {code}. The end of {log}:\n{tail(log)}")

    def pid(self, name: str) -> int:
        """Return the process id of a program."""
        return self._running[name][0].pid

    def kill(self, name: str) -> None:
        """End a program and everything that it started at once, as a machine that is switched off does."""
        process, _ = self._running[name]
        _wait_until(lambda: not _kill(_members({process.pid})), KILL_SECONDS)
        process.wait(KILL_SECONDS)
        if left := _members({process.pid}):
            raise LeftRunningError(f"Processes {sorted(left)} could not be ended: end them by hand.")

    def stop(self) -> None:
        """End everything: politely first, by force what is left."""
        processes = [process for process, _ in self._running.values()]
        for process in processes:
            process.terminate()
        _wait_until(lambda: all(process.poll() is not None for process in processes), self._grace)

        sessions = {process.pid for process in processes}
        _wait_until(lambda: not _kill(_members(sessions)), KILL_SECONDS)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(KILL_SECONDS)
        left = _members(sessions)
        if left:
            raise LeftRunningError(f"Processes {sorted(left)} could not be ended: end them by hand.")
        self._running.clear()


def _members(sessions: set[int]) -> set[int]:
    found = set()
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(pid) in sessions and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                found.add(pid)
    return found


def _kill(pids: set[int]) -> set[int]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def _wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


@contextlib.contextmanager
def _held(*numbers: signal.Signals) -> Iterator[None]:
    """Handle the signals that come meanwhile at the end of the block."""
    came: list[int] = []
    try:
        # Not a mask: what is started in the block would inherit it.
        with _handled(lambda number, _: came.append(number), *numbers):
            yield
    finally:
        for number in came:
            signal.raise_signal(number)


@contextlib.contextmanager
def _handled(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers, *numbers: signal.Signals
) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
