"""
Kill the attempts of a task with SIGKILL, each one step later than the one before; each is a fork of one process.

A step is a call of the system that has an effect outside of the process: it writes, renames or deletes a file that has
a name, or sends something. An attempt counts its steps and kills itself right before the chosen one, however fast the
machine is. The first attempt dies at its first step, the next one, which resumes, at its second, and so on until one
gets to the end. A program of this folder does this with some work, and prints what happened as JSON.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from airflow_provider_mediaops.storage.files import write_at
from tests.contract.fresh_python import printed_by

_ATTEMPT_SECONDS = 240
_FILE_CALLS = {"write", "pwrite", "truncate", "ftruncate", "fsync", "rename", "replace", "link", "unlink"}
_SOCKET_CALLS = {"connect", "send", "sendall", "sendmsg"}
_WRITE_AT = write_at.__code__


def carry_out(program: str, base: str, folder: Path, name: str) -> dict[str, Any]:
    """
    Run a program that kills its attempts.

    :param base: the address of the service.
    :param folder: where the destination is; the undisturbed one is in ``whole`` below it.
    :returns: the number of ``kills``, the ``summary``, and that of the ``undisturbed`` run.
    """
    folder.mkdir()
    happened: dict[str, Any] = printed_by(program, base, str(folder), name, home=folder.parent / "airflow")
    return happened


def run_program(connect: Callable[[str], None], attempt: Callable[[Path, Path], None]) -> None:
    """
    Do the work of a program, with the arguments of :func:`carry_out`.

    :param connect: makes an address that of the connection.
    :param attempt: does what a task does: writes the destination, and its return value into the other file.
    """
    base, folder, name = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    # Airflow prints its log.
    output, sys.stdout = sys.stdout, sys.stderr
    connect(base)
    summary = folder / "summary.json"
    # In this process, so that no fork has to import anything.
    attempt(folder / "whole" / name, summary)
    gc.freeze()
    undisturbed = json.loads(summary.read_text())
    kills = next(
        kills
        for kills in itertools.count()
        if not is_killed(partial(attempt, folder / name, summary), Steps(kills + 1))
    )
    happened = {"kills": kills, "undisturbed": undisturbed, "summary": json.loads(summary.read_text())}
    print(json.dumps(happened), file=output, flush=True)


def is_killed(attempt: Callable[[], None], steps: Steps) -> bool:
    """
    Run an attempt in a fork.

    :returns: whether it has got to that step.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(_ATTEMPT_SECONDS)
            steps.count()
            attempt()
            status = 0
        finally:
            # What the parent has open or registered is not the child's to close.
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), f"an attempt that was to die at {steps} ended with {code}"
    return code != 0


class Steps:
    """
    Count the steps of this process, in all its threads, and kill it right before one of them.

    :param last: its number, from 1; None to let the process live.
    """

    def __init__(self, last: int | None) -> None:
        self._last = last
        self._done = 0
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return f"step {self._last}"

    def count(self) -> None:
        """Begin to count."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def _profile(self, frame: FrameType, event: str, call: Any) -> None:
        if event == "c_call" and _is_step(call) and not _is_scratch(frame):
            with self._lock:
                self._done += 1
                if self._done == self._last:
                    os.kill(os.getpid(), signal.SIGKILL)


def _is_scratch(frame: FrameType) -> bool:
    """Return whether it writes to a file without a name: with the process, the file is gone."""
    return frame.f_code is _WRITE_AT and os.fstat(frame.f_locals["descriptor"]).st_nlink == 0


def _is_step(call: Any) -> bool:
    owner, name = getattr(call, "__self__", None), call.__name__
    if isinstance(owner, ModuleType):
        return owner.__name__ == "posix" and name in _FILE_CALLS
    # Over other sockets an event loop wakes itself.
    return isinstance(owner, socket.socket) and owner.family == socket.AF_INET and name in _SOCKET_CALLS
