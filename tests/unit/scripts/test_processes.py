"""A signal ends a program and all that it has started, as Ctrl-C does the demo."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.system.running import wait_for

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


def is_gone(pid: int) -> bool:
    # Asked first whether there is such a process, it may be gone before it is asked for its state.
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_ends_the_block_and_what_runs_in_it(tmp_path: Path, number: signal.Signals, code: int) -> None:
    log = tmp_path / "log"
    watcher = subprocess.Popen([sys.executable, "-c", WATCHER, STUBBORN, str(log)], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: log.exists() and log.read_text().endswith("\n"), "the program has started its child")
        grandchild = int(log.read_text())
        watcher.send_signal(number)
        assert watcher.wait(120) == code
    finally:
        watcher.kill()
    wait_for(lambda: is_gone(grandchild), "the child of the program is gone")
