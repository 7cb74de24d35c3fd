"""
Kill the attempts of a task with SIGKILL at chosen steps; each attempt is a fork of one process.

A step is a call of the system that has an effect outside of the process: it writes, renames or deletes a file that has
a name, or sends something. An attempt counts its steps and kills itself right before the chosen one, however fast the
machine is. A program of this folder does this with some work, and prints what happened as JSON:

- A part of the work, once as JSON lines and once as CSV: an attempt dies at its first step, and another one finishes;
  the same for the second step, and so on to the last.
- The whole work: the first attempt dies at its first step, the next one, which resumes, at its second, and so on until
  an attempt gets to the end. This covers many deaths in one dataset.
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
from dataclasses import dataclass
from functools import partial
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.storage.files import write_at
from tests.contract.fresh_python import printed_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_ATTEMPT_SECONDS = 240
_FILE_CALLS = {"write", "pwrite", "truncate", "ftruncate", "fsync", "fdatasync", "rename", "replace", "link", "unlink"}
# How many requests the forks have sent; they share it.
_SENT = RawValue("Q", 0)
_SOCKET_CALLS = {"connect", "send", "sendall", "sendmsg"}
# One of these sends a request: the first from a thread, the other from an event loop.
_REQUEST_CALLS = {"sendall", "send"}
_WRITE_AT = write_at.__code__


@dataclass(frozen=True)
class Work:
    """
    Describe the work of a program.

    :param connect: makes an address that of the connection.
    :param attempt: does what a task does: writes the destination, and its return value into the other file.
    :param part: does the same with a small part of the work.
    """

    connect: Callable[[str], None]
    attempt: Callable[[Path, Path], None]
    part: Callable[[Path, Path], None]


def carry_out(program: str, practice: str, base: str, folder: Path, name: str) -> dict[str, Any]:
    """
    Run a program that kills its attempts.

    :param folder: where the destination is; the undisturbed one is in ``whole`` below it.
    :returns: for each kind of file the ``deaths`` at each step of the part, as :func:`_die_at_each_step` returns them;
        the ``kills`` of the whole, its ``summary``, and that of the ``undisturbed`` run.
    """
    folder.mkdir()
    arguments = practice, base, str(folder), name
    happened: dict[str, Any] = printed_by(program, *arguments, home=folder.parent / "airflow")
    return happened


def run_program(work: Work) -> None:
    """Do the work of a program, with the arguments of :func:`carry_out`."""
    practice, base, folder, name = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    # Airflow prints its log.
    output, sys.stdout = sys.stdout, sys.stderr
    work.connect(practice)
    kinds, practice_folder = ("jsonl", "csv"), folder / "practice"
    deaths = {kind: _die_at_each_step(work.part, practice_folder, f"part.{kind}") for kind in kinds}
    work.connect(base)
    summary = folder / "summary.json"
    _live(lambda: work.attempt(folder / "whole" / name, summary))
    undisturbed = json.loads(summary.read_text())
    kills = _die_ever_later(lambda: work.attempt(folder / name, summary))
    happened = {
        "deaths": deaths,
        "kills": kills,
        "undisturbed": undisturbed,
        "summary": json.loads(summary.read_text()),
    }
    print(json.dumps(happened), file=output, flush=True)


def _die_at_each_step(part: Callable[[Path, Path], None], folder: Path, name: str) -> list[tuple[bool, int]]:
    """
    Return what followed a death at each step.

    :returns: whether the next attempt left the same files as an undisturbed one, and how many requests both sent beyond
        those of an undisturbed one.
    """
    summary = folder / "summary.json"
    # In this process, so that no fork has to import anything.
    part(folder / name / "warm" / name, summary)
    gc.freeze()
    _SENT.value = 0
    _live(partial(part, folder / name / "whole" / name, summary))
    needed = _sent_since_last()
    deaths: list[tuple[bool, int]] = []
    while True:
        own = folder / name / str(len(deaths))
        attempt = partial(part, own / name, summary)
        _sent_since_last()
        if not is_killed(attempt, Steps(len(deaths) + 1)):
            return deaths
        _live(attempt)
        deaths.append((_content(own) == _content(folder / name / "whole"), _sent_since_last() - needed))


def _sent_since_last() -> int:
    sent: int = _SENT.value
    _SENT.value = 0
    return sent


def _content(folder: Path) -> tuple[dict[str, bytes], set[str]]:
    """Return the visible files of a folder with their bytes, and the names of all."""
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*")}, {path.name for path in folder.iterdir()}


def _die_ever_later(attempt: Callable[[], None]) -> int:
    """Return how many attempts were killed, each one step later than the one before, until one got to the end."""
    return next(kills for kills in itertools.count() if not is_killed(attempt, Steps(kills + 1)))


def _live(attempt: Callable[[], None]) -> None:
    assert not is_killed(attempt, Steps(None))


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
                _SENT.value += call.__name__ in _REQUEST_CALLS


def _is_scratch(frame: FrameType) -> bool:
    """Return whether it writes to a file without a name: with the process, the file is gone."""
    return frame.f_code is _WRITE_AT and os.fstat(frame.f_locals["descriptor"]).st_nlink == 0


def _is_step(call: Any) -> bool:
    owner, name = getattr(call, "__self__", None), call.__name__
    if isinstance(owner, ModuleType):
        return owner.__name__ == "posix" and name in _FILE_CALLS
    # Over other sockets an event loop wakes itself.
    return isinstance(owner, socket.socket) and owner.family == socket.AF_INET and name in _SOCKET_CALLS
