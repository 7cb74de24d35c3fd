"""
What it takes to say what has changed: the comparison alone, and an export with changes beside a plain one.

The comparison is of two versions of a listing, of which one record in a hundred is changed and one is gone. The exports
are whole tasks against a server of its own process that has its pages ready; both replace the same older version, and
take turns. Each figure is of a fresh process. Run by `make benchmarks`, or `python -m tests.benchmarks.bench_changes`;
`--sizes` makes it shorter.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_mediaops.storage.formats import json_line
from airflow_provider_mediaops.video.changes import VersionComparison
from tests.benchmarks import results
from tests.benchmarks.bench_export import TOKEN, Figure, middle
from tests.benchmarks.fresh_process import environment, last_line_of, peak_memory_mb
from tests.benchmarks.results import Row
from tests.page_server import A_PAGE, page_server, record

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = "tests.benchmarks.bench_changes"
SIZES = (10_000, 100_000, 1_000_000)
SECONDS = 1_800
# How often two exports are compared, and how often large ones.
ROUNDS, LARGE, ROUNDS_OF_LARGE = 5, 1_000_000, 1
PEER = "the export without changes"
# Of so many subscriptions one is changed, one is gone, and one is new: a share of three in so many.
SHARES = {"0.1 %": 3_000, "10 %": 30}
# One record in so many is changed, and one gone.
RARE = 100
WORDS = ("added", "removed", "changed")


def versions(number: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the lines of a record in both versions; its ids are in no order."""
    name = f"{number * 7_919 % 100_000_000:08d}"
    old = json_line(record(name))
    new = json_line({**record(name), "etag": "new"}) if number % RARE == 0 else old
    yield old, None if number % RARE == 1 else new


class Comparison(NamedTuple):
    """
    What a comparison took, and what it found.

    :param cpu: seconds on the processor.
    :param memory: MB beyond those before it.
    :param counts: the records that were added, removed and changed.
    """

    cpu: float
    memory: float
    counts: list[int]


def compare(size: int) -> Comparison:
    """Compare two versions of a listing in this process."""
    with tempfile.TemporaryFile() as file:
        both = chain.from_iterable(map(versions, range(size)))
        file.writelines(new + b"\n" for _, new in both if new is not None)
        file.flush()
        before, started = peak_memory_mb(), time.process_time()
        comparison = VersionComparison(lambda start, length: os.pread(file.fileno(), length, start))
        comparison.add_old(old.decode() for old, _ in chain.from_iterable(map(versions, range(size))))
        file.seek(0)
        comparison.add_new(line[:-1] for line in file)
        after: str | None = None
        while gone := comparison.gone(after, 50):
            after = next(reversed(gone))
        counts = comparison.counts()
        # Each is made, as an export writes it.
        for change in comparison.changes():
            change.line()
        comparison.close()
    return Comparison(time.process_time() - started, peak_memory_mb() - before, [counts[word] for word in WORDS])


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
    before = peak_memory_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    export(base, folder, changes=changes)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Figure(cpu, wall, peak_memory_mb() - before)


def in_fresh_process(kind: str, base: str, practice: str, folder: Path) -> Figure:
    """Export in a fresh process."""
    line = last_line_of(["-m", MODULE, "--export", kind, base, practice, folder], environment(folder), seconds=SECONDS)
    return Figure(*json.loads(line))


def rows_in(file: Path) -> int:
    """Count the lines of a file."""
    with file.open("rb") as opened:
        return sum(1 for _ in opened)


def measure_exports(size: int, share: str) -> Iterator[Row]:
    """Measure plain exports and exports with changes in turns."""
    every, pages = SHARES[share], size // A_PAGE
    figures: dict[str, list[Figure]] = {"plain": [], "changes": []}
    with tempfile.TemporaryDirectory() as folder:
        old, work = Path(folder, "old"), Path(folder, "work")
        old.mkdir()
        with page_server(1) as practice:
            with page_server(pages) as server:
                in_fresh_process("plain", server.base, practice.base, old)
            with page_server(pages, changed_every=every) as server:
                for _ in range(ROUNDS_OF_LARGE if size >= LARGE else ROUNDS):
                    for kind, found in figures.items():
                        shutil.copytree(old, work)
                        found.append(in_fresh_process(kind, server.base, practice.base, work))
                        check(work, size, every, has_changes=kind == "changes")
                        shutil.rmtree(work)
    plain, changes = middle(figures["plain"]), middle(figures["changes"])
    what = f"export of {size:,} records, {share} of them different"
    yield Row(f"{what}: processor time", "s", changes.cpu, PEER, plain.cpu)
    yield Row(f"{what}: memory, beyond that of one page", "MB", changes.memory, PEER, plain.memory)


def check(folder: Path, size: int, every: int, *, has_changes: bool) -> None:
    """Raise if an export has not all rows, or not all changes."""
    if rows_in(folder / "out.jsonl") != size:
        raise RuntimeError("The export has not all rows.")
    # Of those that are new, each takes the place of one that is gone.
    expected = len(range(0, size, every)) + 2 * len(range(1, size, every))
    if has_changes and (written := rows_in(folder / "changes.jsonl")) != expected:
        raise RuntimeError(f"The export has {written} changes, not {expected}.")


def measure_comparison(size: int) -> Iterator[Row]:
    """Measure the comparison alone."""
    with tempfile.TemporaryDirectory() as home:
        line = last_line_of(["-m", MODULE, "--compare", size], environment(home), seconds=SECONDS)
    found = Comparison(*json.loads(line))
    # Each hundredth is changed, and the one after it is gone.
    if (expected := [0, len(range(1, size, RARE)), len(range(0, size, RARE))]) != found.counts:
        raise RuntimeError(f"The comparison has found {found.counts}, not {expected}.")
    yield Row(f"comparison of two versions of {size:,} records: processor time", "s", found.cpu)
    yield Row(f"comparison of two versions of {size:,} records: memory", "MB", found.memory)


def main() -> None:
    """Measure and print; or measure once, as one of the processes that this starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="the records of a listing")
    parser.add_argument("--compare", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--export", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compare:
        compare(1_000)
        sys.stdout.write(f"\n{json.dumps(compare(arguments.compare))}\n")
        return
    if arguments.export:
        kind, base, practice, folder = arguments.export
        figure = export_measured(base, practice, Path(folder), changes=kind == "changes")
        sys.stdout.write(f"\n{json.dumps(figure)}\n")
        return
    exports = [row for size in arguments.sizes for share in SHARES for row in measure_exports(size, share)]
    comparisons = [row for size in arguments.sizes for row in measure_comparison(size)]
    results.record("changes", [*exports, *comparisons])


if __name__ == "__main__":
    main()
