"""
Whether what is fast has become slow: processor time beside that of a peer in the same run, against recorded ratios.

A short form of the benchmarks, for every run of all suites. Ours and the peer take turns, and the median of their
ratios counts, so that neither the machine's speed nor what else it does matters much. A ratio that is a quarter worse
than the recorded one is measured again, twice at most: what the machine did meanwhile passes, what the code does stays.
It is run by ``python -m tests.benchmarks.ratios``; ``--record`` writes the ratios of this run to
``recorded_ratios.json``, to be committed with the reason.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.http.rate_limit.operations import Reserve
from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore
from airflow_provider_mediaops.sandbox.books.isbn import sample_isbns
from tests.benchmarks import bench_enrichment, bench_export, bench_import_time
from tests.benchmarks.bench_hot_threads import REPORTS, text_of
from tests.book_server import book_server
from tests.page_server import A_PAGE, page_server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RECORDED = Path(__file__).with_name("recorded_ratios.json")
ROUNDS, TRIES = 5, 3
#: Of work that needs no process of its own, in each round.
TURNS = 25
#: So much worse than the recorded ratio is a failure.
MOST_WORSE = 1.25
RECORDS, BOOKS, SLOTS, REPORT_SIZE = 30_000, 3_000, 200, 1_000_000
SECONDS = 300
# What a DAG file imports of Airflow's own operators and sensors.
STANDARD = [f"airflow.providers.standard.{name}" for name in ("operators.python", "operators.bash", "sensors.python")]
_LINE = re.compile(r"\s*([\d.]+)% \[?.*\]?.*usage by thread '(.*)'|\s*(\d+)/(\d+) snapshots|\s*(\S.*)")
_LOOP = """
import csv, json, sys, time
import requests
base, isbns, destination = sys.argv[1:]
def look_up(names):
    with requests.Session() as session, open(destination, "w", newline="") as file:
        writer = csv.writer(file)
        session.headers["Authorization"] = "key-of-the-benchmark"
        for name in names:
            reply = session.get(f"{base}/book/{name}", timeout=60)
            book = reply.json().get("book", {})
            writer.writerow([name, reply.status_code, *(json.dumps(value) for value in book.values())])
names = open(isbns).read().split()
look_up(names[:1])
start = time.process_time()
look_up(names)
print(time.process_time() - start)
"""


def export() -> tuple[float, float]:
    """Export subscriptions with the operator, and with a loop over a session."""
    with page_server(RECORDS // A_PAGE) as server, page_server(1) as practice:
        ours, bare = (
            bench_export.measure(name, (server, practice), RECORDS).cpu
            for name in (bench_export.OURS, bench_export.BARE)
        )
    return ours, bare


def enrichment() -> tuple[float, float]:
    """Look up books with the operator, and one after the other in a loop over a session."""
    isbns = sample_isbns(BOOKS)
    with book_server() as server, tempfile.TemporaryDirectory() as folder:
        ours = bench_enrichment.measure(server.base, 1e6, isbns).cpu
        names = Path(folder, "isbns.txt")
        names.write_text("\n".join(isbns), encoding="utf-8")
        command = [sys.executable, "-c", _LOOP, server.base, str(names), str(Path(folder, "books.csv"))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    return ours, float(done.stdout)


def imports() -> tuple[float, float]:
    """Import our operators and sensors, and some of those that come with Airflow."""
    with tempfile.TemporaryDirectory() as home:
        ours, standard = (
            bench_import_time.measure(modules, Path(home)).cpu
            for modules in (bench_import_time.MODULES[bench_import_time.OURS], STANDARD)
        )
    return ours, standard


def hot_threads() -> tuple[float, float]:
    """Parse a report of hot threads, and match a pattern against each of its lines."""
    text = text_of(next(iter(REPORTS.values()))(), REPORT_SIZE)

    def parse_all() -> None:
        parse(text)

    def match_all() -> None:
        for line in text.splitlines():
            _LINE.match(line)

    return _in_turns(parse_all, match_all)


def rate_store() -> tuple[float, float]:
    """Reserve slots of a key in a SQLite file, and update a row of one in as many transactions."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "rates.db"))
        database = sqlite3.connect(Path(folder, "plain.db"), isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        # As ours: to wait for the disk takes as much of the processor as the disk's driver likes.
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("CREATE TABLE slots (name TEXT PRIMARY KEY, next REAL)")
        database.execute("INSERT INTO slots VALUES ('key', 0)")
        reserve = Reserve(gap=0.2, limit=5, window=1.0, horizon=86_400.0)

        def reserve_all() -> None:
            for _ in range(SLOTS):
                store.apply("key", reserve, 0.0)

        def update_all() -> None:
            for _ in range(SLOTS):
                database.execute("BEGIN IMMEDIATE")
                (following,) = database.execute("SELECT next FROM slots WHERE name = 'key'").fetchone()
                database.execute("UPDATE slots SET next = ? WHERE name = 'key'", (following + 1e-6,))
                database.execute("COMMIT")

        spent = _in_turns(reserve_all, update_all)
        store.close()
        database.close()
    return spent


MEASURES: dict[str, Callable[[], tuple[float, float]]] = {
    "export, to a loop over a session": export,
    "enrichment, to a loop over a session": enrichment,
    "import, to operators and sensors of Airflow's own": imports,
    "parsing hot threads, to a pattern matched against each line": hot_threads,
    "a slot of a rate, to a transaction of SQLite": rate_store,
}


def _in_turns(ours: Callable[[], None], peer: Callable[[], None]) -> tuple[float, float]:
    """Run two pieces of work by turns; return the processor times of the turn whose ratio is the median."""

    def spent(work: Callable[[], None]) -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    times = [(spent(ours), spent(peer)) for _ in range(TURNS)]
    return sorted(times, key=lambda pair: pair[0] / pair[1])[TURNS // 2]


def ratio(measure: Callable[[], tuple[float, float]]) -> float:
    """
    Measure in turns.

    :param measure: gives the processor time of ours and of the peer, in seconds.
    :returns: the median of the ratios.
    """
    rounds = [measure() for _ in range(ROUNDS)]
    return statistics.median(ours / peer for ours, peer in rounds)


def compared(
    measures: Mapping[str, Callable[[], tuple[float, float]]], recorded: Mapping[str, float]
) -> dict[str, tuple[float, bool]]:
    """
    Measure each ratio, again if it is too much worse than the recorded one.

    :param measures: what to measure, by name.
    :param recorded: the recorded ratios.
    :returns: each ratio, the best that was measured, and whether it is good.
    """
    found = {}
    for name, measure in measures.items():
        most = recorded[name] * MOST_WORSE
        best = ratio(measure)
        for _ in range(TRIES - 1):
            if best > most:
                best = min(best, ratio(measure))
        found[name] = best, best <= most
    return found


def main() -> None:
    """Compare with the recorded ratios, or record them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the ratios of this run")
    if parser.parse_args().record:
        ratios = {name: round(ratio(measure), 2) for name, measure in MEASURES.items()}
        RECORDED.write_text(f"{json.dumps(ratios, indent=2)}\n", encoding="utf-8")
        return
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    found = compared(MEASURES, recorded)
    for name, (measured, is_good) in found.items():
        verdict = "" if is_good else f"  <- more than {MOST_WORSE} times the recorded"
        sys.stdout.write(f"{measured:7.2f}x (recorded: {recorded[name]:.2f}x)  {name}{verdict}\n")
    if not all(is_good for _, is_good in found.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
