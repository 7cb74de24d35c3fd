"""
How near an enrichment comes to its rate whatever a reply takes, and what memory it needs for lists of any length.

Each figure is of a fresh process against a stand-in of its own process. For the rate, the stand-in admits so many
requests in any second, strictly; its log counts, from the first request to the last. For the memory there is no rate,
so that a million rows take minutes and not days: `mixed` is a list of which half is no ISBN and half names one book
in fifty rows over and over; `bulk` names another book in every row, asks for a thousand at a time, and gets records of
the usual size. Run by `make benchmarks`, or `python -m tests.benchmarks.bench_enrichment`; `--rows` and `--seconds`
make it shorter.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns
from tests.book_server import book_server

MODULE = "tests.benchmarks.bench_enrichment"
ROWS = (10_000, 100_000, 1_000_000)
SECONDS = 40.0
# The rate of the connection, and the seconds that a reply takes.
PACES = ((5, 5.0), (5, 0.05), (50, 0.05), (1, 5.0))
LEAST_USED, MOST_MEMORY = 0.97, 150.0
TIME_LIMIT = 1_800
ROOT = Path(__file__).parents[2]


class Figure(NamedTuple):
    """What one enrichment took.

    :param wall: seconds on the clock.
    :param cpu: seconds on the processor.
    :param memory: the most memory, in MB beyond that of a list of one row.
    """

    wall: float
    cpu: float
    memory: float


def enrich(source: Path, *, bulk: bool) -> Figure:
    """
    Enrich in this process.

    :param source: the list; the dataset goes beside it.
    :param bulk: whether many books are asked for in one request.
    :returns: what it took, beyond what a process takes once.
    """
    from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

    def run(name: str, **arguments: object) -> None:
        destination = str(source.with_name(name))
        EnrichIsbnsOperator(task_id="enrich", destination=destination, bulk=bulk, **arguments).execute({})  # type: ignore[arg-type]

    # What is imported and opened once.
    run("practice.jsonl", isbns=["none"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    run("books.jsonl", source=str(source))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Figure(wall, cpu, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def measure(base: str, rate: float, rows: list[str], *, bulk: bool = False) -> Figure:
    """
    Enrich in a fresh process, and make sure that all is there.

    :param base: the server.
    :param rate: requests a second.
    :param rows: the list.
    :param bulk: whether many books are asked for in one request.
    """
    extra = {"requests_per_second": rate, "plan": "pro", "rate_limit_store": "memory://"}
    connection = {"conn_type": "mediaops_books", "host": base, "password": "key-of-the-benchmark", "extra": extra}
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW_")}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "isbns.txt")
        source.write_text("\n".join(rows))
        done = subprocess.run(
            [sys.executable, "-m", MODULE, "--enrich", str(source), *(["--bulk"] if bulk else [])],
            cwd=ROOT,
            env={
                **clean,
                "AIRFLOW_HOME": folder,
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT": json.dumps(connection),
            },
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"The enrichment failed:\n{done.stderr[-3000:]}")
        with Path(folder, "books.jsonl").open("rb") as opened:
            written = sum(1 for _ in opened)
    if written != len(rows):
        raise RuntimeError(f"There are {written} rows, not {len(rows)}.")
    return Figure(*json.loads(done.stdout.splitlines()[-1]))


def paces(seconds: float) -> str:
    """Measure how much of the rate is used; give a table."""
    lines = [f"{'rate':>6}{'reply s':>9}{'reached':>9}{'used':>8}{'at a time':>11}{'refused':>9}"]
    for rate, latency in PACES:
        rows = sample_isbns(max(10, int(seconds * rate)))
        with book_server(latency, most_a_second=rate) as server:
            measure(server.base, rate, rows)
            seen = server.seen()
        times = seen["times"]
        reached = (len(times) - 1) / (times[-1] - times[0])
        good = reached >= LEAST_USED * rate and not seen["refused"]
        lines.append(
            f"{rate:6}{latency:9.2f}{reached:9.2f}{reached / rate:8.1%}{seen['most']:11}{seen['refused']:9}"
            f"{'' if good else '  <-'}"
        )
    return "\n".join(lines)


def memory(sizes: list[int]) -> str:
    """Measure how memory and time grow with the list; give a table."""
    lines = [f"{'list':8}{'rows':>12}{'MB':>8}{'wall s':>9}{'cpu s':>8}{'rows a second':>15}"]
    for kind in ("mixed", "bulk"):
        for size in sizes:
            with book_server() as server:
                figure = measure(server.base, 1e6, _rows(kind, size), bulk=kind == "bulk")
            good = figure.memory < MOST_MEMORY
            lines.append(
                f"{kind:8}{size:12,}{figure.memory:8.1f}{figure.wall:9.1f}{figure.cpu:8.1f}"
                f"{size / figure.wall:15,.0f}{'' if good else '  <-'}"
            )
    return "\n".join(lines)


def _rows(kind: str, size: int) -> list[str]:
    if kind == "bulk":
        return sample_isbns(size)
    books = sample_isbns(max(1, size // 100))
    # Far apart, so that they are not the ones that are still in memory.
    return [books[number * 7_919 % len(books)] if number % 2 else f"no ISBN {number}" for number in range(size)]


def main() -> None:
    """Measure and print; or enrich once, as one of the processes that this starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS), help="the lengths of the lists")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each rate is measured")
    parser.add_argument("--enrich", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--bulk", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.enrich:
        sys.stdout.write(f"\n{json.dumps(enrich(arguments.enrich, bulk=arguments.bulk))}\n")
        return
    sys.stdout.write(
        f"The rate that is reached, in {arguments.seconds:.0f} s of requests\n{paces(arguments.seconds)}\n\n"
    )
    sys.stdout.write(f"The most memory, beyond that of a list of one\n{memory(arguments.rows)}\n")


if __name__ == "__main__":
    main()
