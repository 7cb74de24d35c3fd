"""
What it takes to say what has changed: the comparison alone, and an export with changes beside a plain one.

The comparison is of two versions of a listing, of which one record in a hundred is changed and one is gone. The exports
are whole tasks against a server of its own process that has its pages ready; both replace the same older version, and
take turns. Each figure is of a fresh process; run by `make benchmarks`, or `python -m tests.benchmarks.bench_changes`.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.video.changes import VersionComparison
from tests.benchmarks.bench_export import TOKEN, Figure, middle
from tests.page_server import A_PAGE, page_server, record

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = (10_000, 100_000, 1_000_000)
SECONDS = 1_800
# How often two exports are compared.
ROUNDS = {10_000: 5, 100_000: 3, 1_000_000: 1}
# Of so many subscriptions one is changed, one is gone, and one is new: a share of three in so many.
SHARES = {"0.1 %": 3_000, "10 %": 30}
# One record in so many is changed, and one gone.
RARE = 100


def versions(number: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the lines of a record in both versions; its ids are in no order."""
    name = f"{number * 7_919 % 100_000_000:08d}"
    old = json_line(record(name))
    new = json_line({**record(name), "etag": "new"}) if number % RARE == 0 else old
    yield old, None if number % RARE == 1 else new


def compare(size: int) -> tuple[float, float, list[int]]:
    """Return the processor time, the MB beyond those of a small comparison, and the counts."""
    with tempfile.TemporaryFile() as file:
        both = chain.from_iterable(map(versions, range(size)))
        file.writelines(new + b"\n" for _, new in both if new is not None)
        file.flush()
        before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        comparison = VersionComparison(lambda start, length: os.pread(file.fileno(), length, start))
        comparison.add_old(old.decode() for old, _ in chain.from_iterable(map(versions, range(size))))
        file.seek(0)
        comparison.add_new(line[:-1] for line in file)
        after: str | None = None
        while gone := comparison.gone(after, 50):
            after = next(reversed(gone))
        counts = comparison.counts()
        written = sum(len(change.line()) for change in comparison.changes())
        comparison.close()
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return time.process_time() - started, memory, [*counts, written]


def export(base: str, folder: Path, *, changes: bool) -> None:
    """Export with the operator, over the version that is there."""
    from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

    connection = {"conn_type": "mediaops_video", "host": base, "password": TOKEN}
    os.environ["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"] = json.dumps(connection)
    path = str(folder / "changes.jsonl") if changes else None
    ExportSubscriptionsOperator(
        task_id="export", destination=str(folder / "out.jsonl"), mine=True, changes=path
    ).execute({})


def export_measured(base: str, practice: str, folder: Path, *, changes: bool) -> Figure:
    """Export in this process, after an export of one page has imported what is needed."""
    small = folder / "practice"
    for _ in range(2):
        export(practice, small, changes=changes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    export(base, folder, changes=changes)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Figure(cpu, wall, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def in_fresh_process(kind: str, base: str, practice: str, folder: Path) -> Figure:
    """Export in a fresh process."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW_")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.bench_changes", kind, base, practice, str(folder)],
        env={**clean, "AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"The export failed:\n{done.stderr}")
    return Figure(*json.loads(done.stdout.splitlines()[-1]))


def rows_in(file: Path) -> int:
    """Count the lines of a file."""
    with file.open("rb") as opened:
        return sum(1 for _ in opened)


def measure_exports(size: int, share: str) -> str:
    """Measure plain exports and exports with changes in turns; return a line of the table."""
    every, pages = SHARES[share], size // A_PAGE
    figures: dict[str, list[Figure]] = {"plain": [], "changes": []}
    with tempfile.TemporaryDirectory() as folder:
        old, work = Path(folder, "old"), Path(folder, "work")
        old.mkdir()
        with page_server(1) as practice:
            with page_server(pages) as server:
                in_fresh_process("plain", server.base, practice.base, old)
            with page_server(pages, changed_every=every) as server:
                for _ in range(ROUNDS[size]):
                    for kind, found in figures.items():
                        shutil.copytree(old, work)
                        found.append(in_fresh_process(kind, server.base, practice.base, work))
                        if rows_in(work / "out.jsonl") != size:
                            raise RuntimeError("The export has not all rows.")
                        if kind == "changes":
                            written = rows_in(work / "changes.jsonl")
                        shutil.rmtree(work)
    # Of those that are new, each takes the place of one that is gone.
    if written != len(range(0, size, every)) + 2 * len(range(1, size, every)):
        raise RuntimeError(f"The export has {written} changes.")
    plain, changes = middle(figures["plain"]), middle(figures["changes"])
    times = f"{plain.cpu:10.2f}{changes.cpu:10.2f}{changes.cpu / plain.cpu:8.2f}x"
    return f"{size:12,}{written:12,}{share:>8}{times}{plain.memory:10.1f}{changes.memory:10.1f}"


def main() -> None:
    """Measure and print; or measure once, as one of the processes that this starts."""
    if len(sys.argv) == 2:
        compare(1_000)
        sys.stdout.write(json.dumps(compare(int(sys.argv[1]))))
        return
    if len(sys.argv) > 2:
        kind, base, practice, folder = sys.argv[1:]
        figure = export_measured(base, practice, Path(folder), changes=kind == "changes")
        sys.stdout.write(f"\n{json.dumps(figure)}\n")
        return
    sys.stdout.write(
        f"{'records':>12}{'changes':>12}{'share':>8}{'plain s':>10}{'changes s':>10}{'':9}{'plain MB':>10}{'MB':>10}\n"
    )
    for size in SIZES:
        for share in SHARES:
            sys.stdout.write(f"{measure_exports(size, share)}\n")
            sys.stdout.flush()
    sys.stdout.write(f"\n{'records':>12}{'cpu s':>8}{'MB':>8}  added, removed, changed, bytes of changes\n")
    for size in SIZES:
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.bench_changes", str(size)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        cpu, memory, counts = json.loads(done.stdout)
        sys.stdout.write(f"{size:12,}{cpu:8.1f}{memory:8.1f}  {counts}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
