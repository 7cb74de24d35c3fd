"""
Whether what is fast has become slow: processor time beside that of a peer in the same run, against recorded ratios.

A short form of the benchmarks, for every run of all suites. A ratio is of the times that ours and a peer of its kind
take undisturbed, in many short turns, with files that are in memory; so neither the machine's speed nor its disk nor
what else it does matters much. A ratio that is a quarter worse than the recorded one is measured again, twice at most:
what the machine did meanwhile passes, what the code does stays.
It is run by ``python -m tests.benchmarks.ratios``; ``--record`` writes the ratios of this run to ``recorded.json``, to
be committed with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.benchmarks.ratios.comparison import MOST_WORSE, TRIES, compared
from tests.benchmarks.ratios.measures import MEASURES

RECORDED = Path(__file__).with_name("recorded.json")
ROOT = Path(__file__).parents[3]
SECONDS = 600
# A file system in memory, if there is one: what a disk and its file system take differs from machine to machine.
_MEMORY = Path("/dev/shm")  # noqa: S108 each process makes a folder of its own there


def measured(name: str) -> float:
    """Measure a ratio in a fresh process, in which nothing that another has left takes part."""
    # Byte code comes from the disk, as in an installed package.
    clean = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("AIRFLOW_") and key != "PYTHONDONTWRITEBYTECODE"
    }
    where = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.ratios", "--measure", name, "--folder", folder],
            cwd=ROOT,
            env={**clean, "AIRFLOW_HOME": folder, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{name} cannot be measured:\n{done.stderr[-3000:]}")
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Compare with the recorded ratios, or record them; or measure one, as a process that this starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the ratios of this run, each the median of three")
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        # On one core, as on a busy machine: on two idle ones, a loop and a thread that wait for each other take half as
        # much again.
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        sys.stdout.write(f"\n{MEASURES[arguments.measure](arguments.folder)}\n")
        return
    if arguments.record:
        ratios = {name: round(statistics.median(measured(name) for _ in range(TRIES)), 3) for name in MEASURES}
        RECORDED.write_text(f"{json.dumps(ratios, indent=2)}\n", encoding="utf-8")
        return
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    found = compared({name: partial(measured, name) for name in MEASURES}, recorded)
    for name, (ratio, is_good) in found.items():
        verdict = "" if is_good else f"  <- more than {MOST_WORSE} times the recorded"
        sys.stdout.write(f"{ratio:7.2f}x (recorded: {recorded[name]:.2f}x)  {name}{verdict}\n")
    if not all(is_good for _, is_good in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
