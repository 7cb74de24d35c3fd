from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from scripts import processes as processes_module
from scripts.processes import ProcessEndedError, Processes, _ports_in_random_order, free_port, tail

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
# Starts a child in a process group of its own; both ignore polite requests to end.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setpgid(0, 0)
    print(os.getpid(), flush=True)
time.sleep(600)
"""
# Takes what follows `-c`, so that a signal can be sent to the block that watches over it.
WATCHER = """
import os, sys, time
from pathlib import Path
from scripts.processes import Processes
with Processes(grace=0.1) as processes:
    processes.start("sleeper", [sys.executable, "-c", sys.argv[1]], env=os.environ, log=Path(sys.argv[2]))
    time.sleep(600)
"""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "Waited 120 s in vain."
        time.sleep(0.05)


def printed_pid(log: Path) -> int:
    wait_for(lambda: log.exists() and log.read_text().endswith("\n"))
    return int(log.read_text())


def is_gone(pid: int) -> bool:
    # Asked first whether there is such a process, it may be gone before it is asked for its state.
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_a_program_that_ended_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    def is_over() -> bool:
        try:
            processes.check()
        except ProcessEndedError:
            return True
        return False

    command = [sys.executable, "-c", "print('no port left'); raise SystemExit(3)"]
    with Processes() as processes:
        processes.start("the server", command, env=os.environ, log=tmp_path / "log")
        wait_for(is_over)
        with pytest.raises(ProcessEndedError, match=r"the server ended with exit code 3[^$]*no port left"):
            processes.check()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_ends_the_block_and_what_runs_in_it(tmp_path: Path, number: signal.Signals, code: int) -> None:
    log = tmp_path / "log"
    watcher = subprocess.Popen([sys.executable, "-c", WATCHER, STUBBORN, str(log)], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        grandchild = printed_pid(log)
        watcher.send_signal(number)
        assert watcher.wait(120) == code
    finally:
        watcher.kill()
    wait_for(lambda: is_gone(grandchild))


@pytest.mark.parametrize(("number", "error"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)])
def test_a_signal_while_a_program_is_started_ends_that_program_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, error: type[BaseException]
) -> None:
    start, started = subprocess.Popen, []

    def interrupted(*given: Any, **how: Any) -> subprocess.Popen[bytes]:
        started.append(start(*given, **how))
        signal.raise_signal(number)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    try:
        with pytest.raises(error), Processes(grace=0.1) as processes:
            processes.start("sleeper", command, env=os.environ, log=tmp_path / "log")
        assert is_gone(started[0].pid)
    finally:
        started[0].kill()
        started[0].wait()


def test_a_free_port_is_given_once_and_never_by_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = "from scripts.processes import free_port; print(free_port())"
    mine = free_port()
    # The first two that come are one that this process has, and one that a server has.
    with socket.create_server(("127.0.0.1", free_port())) as server:
        in_use = int(server.getsockname()[1])
        last = next(port for port in _ports_in_random_order() if port not in {mine, in_use})
        monkeypatch.setattr(processes_module, "_ports_in_random_order", lambda: iter([mine, in_use, last]))
        assert free_port() == last
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(mine, in_use, last) < first
    other = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, check=True, capture_output=True, timeout=240)
    assert int(other.stdout) not in {mine, in_use, last}


def test_the_tail_is_the_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert "never written" in tail(log)
    log.write_text("1\n2\n3\n")
    assert tail(log, lines=2) == "2\n3"


def test_one_program_is_killed_with_all_that_it_started_and_the_others_run_on(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with Processes(grace=0.1) as processes:
        processes.start("stubborn", [sys.executable, "-c", STUBBORN], env=os.environ, log=log)
        processes.start(
            "other", [sys.executable, "-c", "import time; time.sleep(600)"], env=os.environ, log=tmp_path / "o"
        )
        pid = printed_pid(log)
        processes.kill("stubborn")
        assert is_gone(pid)
        with pytest.raises(ProcessEndedError, match=r"^stubborn ended"):
            processes.check()
        processes.start("stubborn", [sys.executable, "-c", STUBBORN], env=os.environ, log=tmp_path / "again")
        processes.check()
