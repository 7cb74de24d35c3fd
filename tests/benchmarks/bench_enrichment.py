"""
How near an enrichment comes to its rate whatever a reply takes, beside a loop that sleeps; and what memory it needs for
lists of any length.

Each figure is of a fresh process against a stand-in of its own process. For the rate, the stand-in admits so many
requests in any second, strictly; its log counts, from the first request to the last. For the memory there is no rate,
so that a million rows take minutes and not days: `mixed` is a list of which half is not an ISBN and half names one book
in fifty rows over and over; `bulk` names another book in every row, asks for a thousand at a time, and gets records of
the usual size. Run by `make benchmarks`, or `python -m tests.benchmarks.bench_enrichment`; `--parts`, `--rows`,
`--kinds` and `--seconds` make it shorter.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_mediaops.sandbox.books import sample_isbns
from tests.benchmarks import results
from tests.benchmarks.fresh_process import environment, last_line_of, peak_memory_mb
from tests.benchmarks.results import Limit, Row
from tests.book_server import book_server

MODULE = "tests.benchmarks.bench_enrichment"
ROWS = (10_000, 100_000, 1_000_000)
# The highest rate that a connection may have.
UNLIMITED = 100_000.0
KINDS = ("mixed", "bulk")
PARTS = ("latency", "memory")
SECONDS = 40.0
LEAST_USED, MOST_MEMORY = 0.97, 150.0
# The seconds that a reply takes, beside a loop at this rate.
LATENCIES, LOOP_RATE = (0.02, 0.2, 1.0, 5.0), 5
TIME_LIMIT = 1_800


def enrich(source: Path, *, bulk: bool) -> float:
    """
    Enrich in this process.

    :param bulk: whether many books are asked for in one request.
    :returns: the most memory, in MB beyond that of a list of one row.
    """
    from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

    def run(name: str, **arguments: object) -> None:
        destination = str(source.with_name(name))
        EnrichIsbnsOperator(task_id="enrich", destination=destination, bulk=bulk, **arguments).execute({})  # type: ignore[arg-type]

    # What is imported and opened once.
    run("practice.jsonl", isbns=["none"])
    before = peak_memory_mb()
    run("books.jsonl", source=str(source))
    return peak_memory_mb() - before


def measure(base: str, rate: float, rows: list[str], *, bulk: bool = False) -> float:
    """
    Enrich in a fresh process, and make sure that all is there.

    :param bulk: whether many books are asked for in one request.
    :returns: the most memory, in MB beyond that of a list of one row.
    """
    extra = {"requests_per_second": rate, "plan": "pro", "rate_limit_store": "memory://"}
    connection = {"conn_type": "mediaops_books", "host": base, "password": "key-of-the-benchmark", "extra": extra}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "isbns.txt")
        source.write_text("\n".join(rows))
        how = ["--bulk"] if bulk else []
        variables = {"AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT": json.dumps(connection)}
        line = last_line_of(
            ["-m", MODULE, "--enrich", source, *how], environment(folder, **variables), seconds=TIME_LIMIT
        )
        with Path(folder, "books.jsonl").open("rb") as opened:
            written = sum(1 for _ in opened)
    if written != len(rows):
        raise RuntimeError(f"There are {written} rows, not {len(rows)}.")
    return float(line)


def loop(base: str, isbns: Sequence[str], rate: float) -> None:
    """Look up books one after the other, with a sleep behind each that keeps the rate."""
    import requests

    with requests.Session() as session:
        session.headers["Authorization"] = "key-of-the-benchmark"
        for isbn in isbns:
            session.get(f"{base}/book/{isbn}", timeout=60).raise_for_status()
            time.sleep(1 / rate)


def latencies(seconds: float) -> None:
    """Measure the rate that is reached at each latency, beside a loop."""
    rows = []
    for latency in LATENCIES:
        isbns = sample_isbns(max(10, int(seconds * LOOP_RATE)))
        with book_server(latency, most_a_second=LOOP_RATE) as server:
            measure(server.base, LOOP_RATE, isbns)
            seen = server.seen()
            ours = _reached(seen["times"])
        rows.append(_refused(f"refused, a reply takes {latency:g} s", seen["refused"]))
        # A loop does no more than this in the time.
        isbns = isbns[: max(5, int(seconds / (latency + 1 / LOOP_RATE)))]
        with book_server(latency, most_a_second=LOOP_RATE) as server:
            loop(server.base, isbns, LOOP_RATE)
            peer_figure = _reached(server.seen()["times"])
        limit = Limit("at least", LEAST_USED * LOOP_RATE)
        what = f"books a second at a rate of {LOOP_RATE}, a reply takes {latency:g} s"
        rows.append(Row(what, "", ours, "a loop that sleeps", peer_figure, limit))
    results.record("enrichment_latency", rows)


def _refused(what: str, requests: int) -> Row:
    return Row(what, "requests", requests, limit=Limit("at most", 0))


def _reached(times: Sequence[float]) -> float:
    return (len(times) - 1) / (times[-1] - times[0])


def memory(kinds: list[str], sizes: list[int]) -> None:
    """Measure how memory grows with the list."""
    found = []
    for kind in kinds:
        for size in sizes:
            with book_server() as server:
                most = measure(server.base, UNLIMITED, _rows(kind, size), bulk=kind == "bulk")
            what = f"memory, {size:,} rows of a list of kind {kind}"
            found.append(Row(what, "MB", most, limit=Limit("at most", MOST_MEMORY)))
    results.record("enrichment_memory", found)


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
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS, help="the kinds of lists")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, help="what is measured")
    arguments = parser.parse_args()
    if arguments.enrich:
        sys.stdout.write(f"\n{enrich(arguments.enrich, bulk=arguments.bulk)}\n")
        return
    if "latency" in arguments.parts:
        latencies(arguments.seconds)
    if "memory" in arguments.parts:
        memory(arguments.kinds, arguments.rows)


if __name__ == "__main__":
    main()
