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
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.fresh_process import environment, last_line_of
from tests.benchmarks.ratios.measures import MEASURES

RECORDED = Path(__file__).with_name("recorded.json")
SECONDS = 600
TRIES = 3
#: So much worse than the recorded ratio is a failure.
MOST_WORSE = 1.25
# A file system in memory, if there is one: what a disk and its file system take differs from machine to machine.
_MEMORY = Path("/dev/shm")  # noqa: S108 each process makes a folder of its own there


def measured(name: str) -> float:
    """Measure a ratio in a fresh process, in which nothing that another has left takes part."""
    where = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        arguments = ["--measure", name, "--folder", folder]
        return float(last_line_of(["-m", "tests.benchmarks.ratios", *arguments], environment(folder), seconds=SECONDS))


def best_of_tries(name: str, most: float) -> float:
    """Measure a ratio, again if it is too much worse than the recorded one; return the best."""
    best = measured(name)
    for _ in range(TRIES - 1):
        if best > most:
            best = min(best, measured(name))
    return best


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
    is_good = True
    for name in MEASURES:
        most = recorded[name] * MOST_WORSE
        ratio = best_of_tries(name, most)
        verdict = "" if ratio <= most else f"  <- more than {MOST_WORSE} times the recorded"
        sys.stdout.write(f"{ratio:7.2f}x (recorded: {recorded[name]:.2f}x)  {name}{verdict}\n")
        is_good &= ratio <= most
    if not is_good:
        sys.exit(1)


if __name__ == "__main__":
    main()
