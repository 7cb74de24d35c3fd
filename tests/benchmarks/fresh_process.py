"""
A figure of a fresh process: its environment, its command, and the processor time and memory that it has taken.

Contenders take turns, so that a busy moment of the machine does not fall on one of them alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
T = TypeVar("T")


def environment(home: Path | str, **variables: str) -> dict[str, str]:
    """
    Return the environment of a fresh process, in which nothing is left of the Airflow of whoever starts it.

    Byte code is kept on the disk, as in an installed package, whatever this process was told.
    """
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW_", "_AIRFLOW_")) and name != "PYTHONDONTWRITEBYTECODE"
    }
    return {**clean, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False", **variables}


def last_line_of(arguments: Sequence[object], env: dict[str, str], *, seconds: float, folder: Path | str = ROOT) -> str:
    """
    Run Python in a fresh process, and return the last line that it writes.

    :param arguments: those of Python, such as ``-m`` and the name of a module.
    """
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        what = " ".join(command)[:200]
        raise RuntimeError(f"A process ended with exit code {done.returncode}: {what}\n{done.stderr[-4000:]}")
    return done.stdout.splitlines()[-1]


def peak_memory_mb() -> float:
    """
    Return the most memory that this process has had since its program began, in MB.

    That of ``getrusage`` is no less than the memory of the process that has started it.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    [line] = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def in_rounds(
    contenders: Mapping[str, Callable[[], T]], rounds: int, *, has_practice: bool = True
) -> dict[str, list[T]]:
    """
    Measure each contender once a round.

    :param rounds: how many rounds count.
    :param has_practice: whether a round goes before them, which writes byte code and loads what is loaded once.
    """
    if has_practice:
        for measure in contenders.values():
            measure()
    found: dict[str, list[T]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measure in contenders.items():
            found[name].append(measure())
    return found
