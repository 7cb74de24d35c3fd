"""
How near an enrichment comes to its rate whatever a reply takes, beside a loop that sleeps; what memory it needs for
lists of any length; what it takes to reuse an earlier dataset; and what it takes to read a list through once, as each
task does before its first request.

Each figure is of a fresh process against a stand-in of its own process. For the rate, the stand-in admits so many
requests in any second, strictly; its log counts, from the first request to the last. For the memory there is no rate,
so that a million rows take minutes and not days: `mixed` is a list of which half is no ISBN and half names one book
in fifty rows over and over; `bulk` names another book in every row, asks for a thousand at a time, and gets records of
the usual size; `reuse` names another book in every row, too, 99 of a hundred of which an earlier dataset holds. What
such a list takes beyond its requests is the difference to a plain list of the other books alone. The list that is
read through is a CSV file with the columns and the writings of an export from Goodreads. Run by `make
benchmarks`, or `python -m tests.benchmarks.bench_enrichment`; `--parts`, `--rows`, `--kinds`, `--formats` and
`--seconds` make it shorter.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns
from airflow_provider_mediaops.storage.source_list import ListSource
from tests.benchmarks import results
from tests.benchmarks.fresh_process import environment, last_line_of, peak_memory_mb
from tests.benchmarks.results import Limit, Row
from tests.book_server import book_server, record

if TYPE_CHECKING:
    from collections.abc import Sequence

MODULE = "tests.benchmarks.bench_enrichment"
ROWS = (10_000, 100_000, 1_000_000)
KINDS = ("mixed", "bulk", "reuse")
PARTS = ("latency", "rate", "memory", "reuse", "reading")
FORMATS = ("jsonl", "csv", "parquet")
# One book in so many is new; the others were fetched so many a second.
NEW, FETCHED_A_SECOND = 100, 5
SECONDS = 40.0
# The rate of the connection, and the seconds that a reply takes.
PACES = ((5, 5.0), (5, 0.05), (50, 0.05), (1, 5.0))
LEAST_USED, MOST_MEMORY = 0.97, 150.0
# The seconds that a reply takes, beside a loop at this rate.
LATENCIES, LOOP_RATE = (0.02, 0.2, 1.0, 5.0), 5
# For a million rows, beyond the requests.
MOST_SECONDS = 60.0
# Of processor time, to read a million rows through.
MOST_READING_SECONDS = 25.0
TIME_LIMIT = 1_800


class Figure(NamedTuple):
    """What one enrichment took.

    :param wall: seconds on the clock.
    :param cpu: seconds on the processor.
    :param memory: the most memory, in MB beyond that of a list of one row.
    """

    wall: float
    cpu: float
    memory: float


def enrich(source: Path, *, format: str = "jsonl", bulk: bool = False, reuse: Path | None = None) -> Figure:
    """
    Enrich in this process.

    :param source: the list; the dataset goes beside it.
    :param format: the format of the dataset.
    :param bulk: whether many books are asked for in one request.
    :param reuse: an earlier dataset.
    :returns: what it took, beyond what a process takes once.
    """
    from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

    def run(name: str, **arguments: object) -> None:
        destination = str(source.with_name(name))
        EnrichIsbnsOperator(task_id="enrich", destination=destination, bulk=bulk, **arguments).execute({})  # type: ignore[arg-type]

    # What is imported and opened once.
    run(f"practice.{format}", isbns=["none"])
    before = peak_memory_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    run(f"books.{format}", source=str(source), **({"reuse": str(reuse), "max_requests": 10**9} if reuse else {}))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Figure(wall, cpu, peak_memory_mb() - before)


def measure(
    base: str, rate: float, rows: list[str], *, bulk: bool = False, known: Sequence[str] = (), format: str = "jsonl"
) -> Figure:
    """
    Enrich in a fresh process, and make sure that all is there.

    :param base: the server.
    :param rate: requests a second.
    :param rows: the list.
    :param bulk: whether many books are asked for in one request.
    :param known: the books that an earlier dataset holds.
    :param format: the format of both datasets.
    """
    extra = {"requests_per_second": rate, "plan": "pro", "rate_limit_store": "memory://"}
    connection = {"conn_type": "mediaops_books", "host": base, "password": "key-of-the-benchmark", "extra": extra}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "isbns.txt")
        source.write_text("\n".join(rows))
        how = ["--formats", format, *(["--bulk"] if bulk else [])]
        if known:
            how += ["--reuse", str(_earlier(Path(folder, f"earlier.{format}"), known))]
        variables = {"AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT": json.dumps(connection)}
        line = last_line_of(
            ["-m", MODULE, "--enrich", source, *how], environment(folder, **variables), seconds=TIME_LIMIT
        )
        written = sum(1 for _ in ListSource([str(Path(folder, f"books.{format}"))], ["isbn13"]).read(keep=False))
    if written != len(rows):
        raise RuntimeError(f"There are {written} rows, not {len(rows)}.")
    return Figure(*json.loads(line))


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


def paces(seconds: float) -> str:
    """Measure how much of the rate is used; give a table."""
    lines = [f"{'rate':>6}{'reply s':>9}{'reached':>9}{'used':>8}{'at a time':>11}{'refused':>9}"]
    found = []
    for rate, latency in PACES:
        rows = sample_isbns(max(10, int(seconds * rate)))
        with book_server(latency, most_a_second=rate) as server:
            measure(server.base, rate, rows)
            seen = server.seen()
        reached = _reached(seen["times"])
        what = f"rate used, {rate} a second, a reply takes {latency:g} s"
        found.append(Row(what, "%", 100 * reached / rate, limit=Limit("at least", 100 * LEAST_USED)))
        found.append(_refused(f"refused, {rate} a second, a reply takes {latency:g} s", seen["refused"]))
        good = reached >= LEAST_USED * rate and not seen["refused"]
        lines.append(
            f"{rate:6}{latency:9.2f}{reached:9.2f}{reached / rate:8.1%}{seen['most']:11}{seen['refused']:9}"
            f"{'' if good else '  <-'}"
        )
    results.record("enrichment_rate", found)
    return "\n".join(lines)


def memory(kinds: list[str], sizes: list[int]) -> str:
    """Measure how memory and time grow with the list; give a table."""
    lines = [f"{'list':8}{'rows':>12}{'MB':>8}{'wall s':>9}{'cpu s':>8}{'rows a second':>15}"]
    found = []
    for kind in kinds:
        for size in sizes:
            rows = _rows(kind, size)
            known = _known(rows) if kind == "reuse" else []
            with book_server() as server:
                figure = measure(server.base, 1e6, rows, bulk=kind == "bulk", known=known)
            good = figure.memory < MOST_MEMORY
            what = f"memory, {size:,} rows of a list of kind {kind}"
            found.append(Row(what, "MB", figure.memory, limit=Limit("at most", MOST_MEMORY)))
            lines.append(
                f"{kind:8}{size:12,}{figure.memory:8.1f}{figure.wall:9.1f}{figure.cpu:8.1f}"
                f"{size / figure.wall:15,.0f}{'' if good else '  <-'}"
            )
    results.record("enrichment_memory", found)
    return "\n".join(lines)


def reusing(formats: list[str], sizes: list[int]) -> str:
    """Measure what a list takes that an earlier dataset holds, beside a plain one of the books that are new."""
    lines = [f"{'format':8}{'rows':>12}{'new':>8}{'new s':>8}{'all s':>8}{'beyond':>8}{'cpu s':>8}{'MB':>8}"]
    found = []
    for format in formats:
        for size in sizes:
            rows = sample_isbns(size)
            with book_server() as server:
                plain = measure(server.base, 1e6, rows[::NEW], format=format)
            with book_server() as server:
                figure = measure(server.base, 1e6, rows, known=_known(rows), format=format)
            beyond = figure.wall - plain.wall
            good = beyond * 1_000_000 / size <= MOST_SECONDS and figure.memory < MOST_MEMORY
            limit = Limit("at most", MOST_SECONDS * size / 1_000_000)
            found.append(Row(f"time to reuse {size:,} rows, {format}", "s", beyond, limit=limit))
            most = Limit("at most", MOST_MEMORY)
            found.append(Row(f"memory to reuse {size:,} rows, {format}", "MB", figure.memory, limit=most))
            lines.append(
                f"{format:8}{size:12,}{len(rows[::NEW]):8,}{plain.wall:8.1f}{figure.wall:8.1f}{beyond:8.1f}"
                f"{figure.cpu - plain.cpu:8.1f}{figure.memory:8.1f}{'' if good else '  <-'}"
            )
    results.record("enrichment_reuse", found)
    return "\n".join(lines)


def read(source: Path) -> Figure:
    """Read a list through in this process, as the operator does before the first request."""
    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.enrichment.options import STAND_INS, EnrichmentOptions
    from airflow_provider_mediaops.enrichment.survey import Survey

    def survey(file: Path) -> int:
        destination = str(source.with_name("books.csv"))
        enrichment = Enrichment(owner={}, destination=destination, total=0, source=[str(file)], keep=True)
        told: list[str] = []
        return Survey(enrichment, EnrichmentOptions.read(STAND_INS), told.append, told.append).counted(None).total

    # What is imported once.
    survey(_goodreads(source.with_name("practice.csv"), 1))
    before = peak_memory_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    survey(source)
    return Figure(time.perf_counter() - wall, time.process_time() - cpu, peak_memory_mb() - before)


def reading(sizes: list[int]) -> str:
    """Measure what it takes to read a list through; give a table."""
    lines = [f"{'rows':>12}{'MB of CSV':>11}{'wall s':>9}{'cpu s':>8}{'MB':>8}"]
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            source = _goodreads(Path(folder, "isbns.csv"), size)
            line = last_line_of(["-m", MODULE, "--read", source], environment(folder), seconds=TIME_LIMIT)
            file_mb = source.stat().st_size / 1e6
        figure, most = Figure(*json.loads(line)), MOST_READING_SECONDS * size / 1_000_000
        found.append(Row(f"processor time to read {size:,} rows of CSV", "s", figure.cpu, limit=Limit("at most", most)))
        limit = Limit("at most", MOST_MEMORY)
        found.append(Row(f"memory to read {size:,} rows of CSV", "MB", figure.memory, limit=limit))
        good = figure.cpu <= most and figure.memory <= MOST_MEMORY
        numbers = f"{size:12,}{file_mb:11.1f}{figure.wall:9.1f}{figure.cpu:8.1f}{figure.memory:8.1f}"
        lines.append(f"{numbers}{'' if good else '  <-'}")
    results.record("enrichment_reading", found)
    return "\n".join(lines)


def _goodreads(file: Path, size: int) -> Path:
    """Write a list with the columns and the writings of an export from Goodreads."""
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["Book Id", "Title", "Author", "ISBN", "ISBN13", "My Rating", "Date Read", "Bookshelves"])
        for number, isbn in enumerate(sample_isbns(size)):
            written = ('=""', "")[number % 2] if number % 5 == 0 else f'="{isbn}"'
            title = f"The {number}. Title, or: a longer one (A Series, #{number % 9})"
            more = [number % 6, "2026/11/23", "to-read, favourites"]
            writer.writerow([number, title, "Mary Wollstonecraft Shelley", '=""', written, *more])
    return file


def _known(rows: list[str]) -> list[str]:
    return [isbn for number, isbn in enumerate(rows) if number % NEW]


def _rows(kind: str, size: int) -> list[str]:
    if kind in ("bulk", "reuse"):
        return sample_isbns(size)
    books = sample_isbns(max(1, size // 100))
    # Far apart, so that they are not the ones that are still in memory.
    return [books[number * 7_919 % len(books)] if number % 2 else f"no ISBN {number}" for number in range(size)]


def _earlier(file: Path, isbns: Sequence[str]) -> Path:
    """Write a dataset of yesterday, in another order than that of the list."""
    from airflow_provider_mediaops.enrichment.checkpoint import ENRICHED
    from airflow_provider_mediaops.storage.formats import format_of, json_line, write_table

    yesterday = int(time.time()) - 86_400

    def row(number: int, isbn13: str) -> dict[str, Any]:
        when = datetime.fromtimestamp(yesterday - number // FETCHED_A_SECOND, timezone.utc).isoformat()
        head = {"input": isbn13, "isbn13": isbn13, "status": "found", "error": None, "fetched_at": when}
        return {**head, "reused": False, "book": record(isbn13)}

    rows = (row(number, isbn13) for number, isbn13 in enumerate(reversed(isbns)))
    if (format := format_of(file)) == "jsonl":
        with file.open("wb") as opened:
            opened.writelines(json_line(each) + b"\n" for each in rows)
    else:
        write_table(format, file, ENRICHED, rows)
    return file


def main() -> None:
    """Measure and print; or enrich once, as one of the processes that this starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS), help="the lengths of the lists")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each rate is measured")
    parser.add_argument("--enrich", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--bulk", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--reuse", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS, help="the kinds of lists")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=FORMATS, help="the formats of reuse")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS, help="what is measured")
    arguments = parser.parse_args()
    if arguments.enrich:
        how = {"format": arguments.formats[0], "bulk": arguments.bulk, "reuse": arguments.reuse}
        sys.stdout.write(f"\n{json.dumps(enrich(arguments.enrich, **how))}\n")
        return
    if arguments.read:
        sys.stdout.write(f"\n{json.dumps(read(arguments.read))}\n")
        return
    if "latency" in arguments.parts:
        latencies(arguments.seconds)
    if "rate" in arguments.parts:
        sys.stdout.write(f"The rate that is reached, in {arguments.seconds:.0f} s of requests\n")
        sys.stdout.write(f"{paces(arguments.seconds)}\n\n")
    if "memory" in arguments.parts:
        sys.stdout.write("The most memory, beyond that of a list of one\n")
        sys.stdout.write(f"{memory(arguments.kinds, arguments.rows)}\n\n")
    if "reuse" in arguments.parts:
        sys.stdout.write("What it takes to reuse an earlier dataset, beyond the requests for what is new\n")
        sys.stdout.write(f"{reusing(arguments.formats, arguments.rows)}\n\n")
    if "reading" in arguments.parts:
        sys.stdout.write("What it takes to read a list through once, before the first request\n")
        sys.stdout.write(f"{reading(arguments.rows)}\n")


if __name__ == "__main__":
    main()
