"""
Attempts of a task that are killed: each is a fork of one process that has everything imported already.

A program of this folder carries out some work, first undisturbed, then killed again and again until an attempt comes to
its end, and prints what happened as JSON. Each of the first attempts gets SIGKILL at a random moment, so that it may be
hit in the middle of anything.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

#: How many attempts are killed at most, and how many have to be.
MOST_KILLS, LEAST_KILLS = 60, 50

_ROOT = Path(__file__).parents[2]
_SECONDS = 60.0
# An attempt that has got as far as it may lives for so many seconds more at most.
_A_MOMENT = 0.01
# One attempt gets up to twice its share of the work done; one in eight is hit before it has got anywhere.
_FARTHEST, _NOWHERE = 2.0, -0.3


@dataclass(frozen=True)
class Work:
    """
    What is carried out.

    :param connect: lets the connection lead to an address.
    :param attempt: does what a task does: writes the destination, and what it returns into the other file.
    :param part: does the same with a part of it, which needs all that the whole needs.
    :param parts: how many of these the whole is.
    """

    connect: Callable[[str], None]
    attempt: Callable[[Path, Path], None]
    part: Callable[[Path, Path], None]
    parts: int


def carry_out(program: str, practice: str, base: str, folder: Path, name: str) -> dict[str, Any]:
    """
    Let a program carry out its work.

    :param program: the name of its module.
    :param practice: the address of a server for the part.
    :param base: the address of the server.
    :param folder: where the destination is to be; the undisturbed one stands in ``whole`` below it.
    :param name: the destination's name.
    :returns: the ``kills``, the ``status`` of the last attempt, the ``summary``, that of the ``undisturbed`` run, and
        the ``seed`` of chance.
    """
    folder.mkdir()
    seed = str(random.randrange(10**6))  # noqa: S311 it is told when the test fails
    done = subprocess.run(
        [sys.executable, "-m", program, practice, base, str(folder), name, seed],
        cwd=_ROOT,
        env={**os.environ, "AIRFLOW_HOME": str(folder.parent / "airflow")},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ended: dict[str, Any] = json.loads(done.stdout)
    assert ended["status"] == 0, done.stderr[-3000:]
    return {**ended, "seed": seed}


def run_program(work: Work) -> None:
    """Be the program that carries out the work, with the arguments that :func:`carry_out` gives."""
    practice, base, folder, name, seed = sys.argv[1:]
    # Airflow prints its log.
    output, sys.stdout = sys.stdout, sys.stderr
    summary, part = Path(folder, "summary.json"), Path(folder, "practice", "part.jsonl")
    work.connect(practice)
    work.part(part, summary)
    work.connect(base)
    _let_live(lambda: work.attempt(Path(folder, "whole", name), summary))
    undisturbed = json.loads(summary.read_text())
    moments = _Moments(Path(folder, f".{name}.records"), part.stat().st_size * work.parts, int(seed))
    ended = _kill_until_done(lambda: work.attempt(Path(folder, name), summary), moments)
    told = {**ended, "undisturbed": undisturbed, "summary": json.loads(summary.read_text())}
    print(json.dumps(told), file=output, flush=True)


class _Moments:
    """
    The moments of the kills: by how far the attempts have got, however fast the machine is, all over the work.

    :param records: the file in which they stage what is done.
    :param whole: its size in the end, about.
    :param seed: of chance.
    """

    def __init__(self, records: Path, whole: int, seed: int) -> None:
        self._records = records
        self._whole = whole
        self._chance = random.Random(seed)  # noqa: S311 nobody is to be kept from guessing it

    def wait(self, kills_left: int) -> None:
        """Come back when it is time to kill an attempt, or it is done."""
        size = self._size()
        share = max(0, self._whole - size) / kills_left
        enough = size + share * self._chance.uniform(_NOWHERE, _FARTHEST)
        deadline = time.monotonic() + _SECONDS
        while self._size() < enough and time.monotonic() < deadline and not self._is_published():
            time.sleep(0.0005)
        time.sleep(self._chance.uniform(0.0, _A_MOMENT))

    def _size(self) -> int:
        try:
            return self._records.stat().st_size
        except FileNotFoundError:
            return 0

    def _is_published(self) -> bool:
        return self._records.with_name(self._records.name[1:].removesuffix(".records")).exists()


def _kill_until_done(attempt: Callable[[], Any], moments: _Moments) -> dict[str, Any]:
    for kills in range(MOST_KILLS):
        child = _fork(attempt)
        moments.wait(MOST_KILLS - kills)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return {"kills": kills, "status": os.waitstatus_to_exitcode(status)}
    return {"kills": MOST_KILLS, "status": _let_live(attempt)}


def _let_live(attempt: Callable[[], Any]) -> int | str:
    child = _fork(attempt)
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"no end after {_SECONDS} seconds"


def _fork(attempt: Callable[[], Any]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            attempt()
            status = 0
        finally:
            # Nothing of what the parent has open or registered is this child's to close.
            os._exit(status)
    return child
