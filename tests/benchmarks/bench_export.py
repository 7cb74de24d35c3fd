"""
What an export of subscriptions takes: our operator, with its checkpoints, beside what one would write without it.

Each figure is of a fresh process against a server of its own process that has its pages ready; the contenders take
turns, so that a busy moment of the machine does not fall on one of them alone. Run by `make benchmarks`, or
`python -m tests.benchmarks.bench_export`; `--parts` and `--sizes` make it shorter. Ten million records are 11 GB, which
are removed when they are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.fresh_process import environment, in_rounds, last_line_of, peak_memory_mb
from tests.benchmarks.results import Limit, Row, record
from tests.page_server import A_PAGE, page_server

if TYPE_CHECKING:
    from tests.page_server import Pages

ROUNDS = 5
RECORDS = 100_000
GROWING = (10_000, 100_000, 1_000_000, 10_000_000)
# The peer takes half as long again.
LARGEST_OF_PEER = 1_000_000
SLOW_RECORDS = 20_000
LATENCY = 0.05
SECONDS = 7_200
OURS = "this provider"
BARE = "requests.Session"
HOOK = "http provider's HttpHook"
TOKEN = "token-of-the-benchmark"
# What is asked for: times the processor time of another, and times the time that the service takes.
TO_BARE, TO_HOOK, TO_LATENCY = 0.60, 0.35, 1.03
PARTS = ("compare", "grow", "wait")


def ours(base: str, file: Path) -> None:
    """Export with the operator."""
    from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

    connection = {"conn_type": "mediaops_video", "host": base, "password": TOKEN}
    os.environ["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"] = json.dumps(connection)
    ExportSubscriptionsOperator(task_id="export", destination=str(file), mine=True).execute({})


def bare(base: str, file: Path) -> None:
    """Export with a loop over a session."""
    import requests

    params = {"part": "id,snippet,contentDetails", "mine": "true", "maxResults": "50", "order": "alphabetical"}
    with requests.Session() as session, file.open("w", encoding="utf-8") as opened:
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        while True:
            reply = session.get(f"{base}/v3/subscriptions", params=params, timeout=60)
            reply.raise_for_status()
            page = json.loads(reply.content)
            for item in page["items"]:
                opened.write(json.dumps(item) + "\n")
            if "nextPageToken" not in page:
                return
            params["pageToken"] = page["nextPageToken"]


def http_hook(base: str, file: Path) -> None:
    """Export with the hook of the http provider."""
    from airflow.providers.http.hooks.http import HttpHook

    os.environ["AIRFLOW_CONN_PLATFORM"] = json.dumps({"conn_type": "mediaops_video", "host": base})
    params = {"part": "id,snippet,contentDetails", "mine": "true", "maxResults": "50", "order": "alphabetical"}
    headers = {"Authorization": f"Bearer {TOKEN}"}
    hook = HttpHook("GET", http_conn_id="platform")
    with file.open("w", encoding="utf-8") as opened:
        while True:
            page = json.loads(hook.run("v3/subscriptions", data=params, headers=headers).content)
            for item in page["items"]:
                opened.write(json.dumps(item) + "\n")
            if "nextPageToken" not in page:
                return
            params["pageToken"] = page["nextPageToken"]


CONTENDERS: dict[str, Callable[[str, Path], None]] = {OURS: ours, BARE: bare, HOOK: http_hook}


class Figure(NamedTuple):
    """
    What one export took.

    :param cpu: seconds on the processor.
    :param wall: seconds on the clock.
    :param memory: the most memory that it held beyond what an export of one page had taken, in MB.
    """

    cpu: float
    wall: float
    memory: float


def export(name: str, base: str, practice: str, file: Path) -> Figure:
    """Export in this process."""
    run = CONTENDERS[name]
    run(practice, file.with_name("practice.jsonl"))
    before = peak_memory_mb()
    wall, cpu = time.perf_counter(), time.process_time()
    run(base, file)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Figure(cpu, wall, peak_memory_mb() - before)


def measure(name: str, servers: tuple[Pages, Pages], records: int) -> Figure:
    """Export in a fresh process, and make sure that all is there."""
    base, practice = (server.base for server in servers)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "out.jsonl")
        arguments = ["--export", name, base, practice, file]
        line = last_line_of(["-m", "tests.benchmarks.bench_export", *arguments], environment(folder), seconds=SECONDS)
        with file.open("rb") as opened:
            rows = sum(1 for _ in opened)
    if rows != records:
        raise RuntimeError(f"The export by {name} has {rows} rows, not {records}.")
    return Figure(*json.loads(line))


def in_turns(names: Sequence[str], servers: tuple[Pages, Pages], records: int) -> dict[str, list[Figure]]:
    """Measure contenders, each once a round. A practice is part of each process."""
    return in_rounds({name: partial(measure, name, servers, records) for name in names}, ROUNDS, has_practice=False)


def middle(runs: Sequence[Figure]) -> Figure:
    """Give the median of each figure."""
    return Figure(*map(statistics.median, zip(*runs, strict=True)))


def compare() -> None:
    """Measure all contenders, in turns."""
    with page_server(RECORDS // A_PAGE) as server, page_server(1) as practice:
        figures = in_turns(list(CONTENDERS), (server, practice), RECORDS)
    found, *peers = ((name, middle(runs)) for name, runs in figures.items())
    limits = {BARE: Limit("at most", TO_BARE, "ratio"), HOOK: Limit("at most", TO_HOOK, "ratio")}
    rows = [Row("processor time", "s", found[1].cpu, peer, figure.cpu, limits[peer]) for peer, figure in peers]
    bare = dict(peers)[BARE]
    rows.append(Row("time", "s", found[1].wall, BARE, bare.wall))
    rows.append(Row("memory, beyond that of one page", "MB", found[1].memory, BARE, bare.memory))
    record("export", rows)


def grow(sizes: Sequence[int]) -> None:
    """Measure how time and memory grow with the records."""
    figures: dict[str, dict[int, Figure]] = {OURS: {}, BARE: {}}
    for records in sizes:
        for name in (OURS, BARE) if records <= LARGEST_OF_PEER else (OURS,):
            with page_server(records // A_PAGE) as server, page_server(1) as practice:
                figures[name][records] = measure(name, (server, practice), records)
    record("export_growth", list(_growth(figures)))


def _growth(figures: dict[str, dict[int, Figure]]) -> Iterator[Row]:
    for what, unit, of in (("processor time", "s", 0), ("memory, beyond that of one page", "MB", 2)):
        for records, figure in figures[OURS].items():
            peer = figures[BARE].get(records)
            name = f"{what}, {records:,} records"
            yield Row(name, unit, figure[of], BARE, peer[of]) if peer else Row(name, unit, figure[of])


def wait() -> None:
    """Measure what is added to the time that the service takes."""
    pages = SLOW_RECORDS // A_PAGE
    with page_server(pages, delay=LATENCY) as server, page_server(1) as practice:
        figures = in_turns((OURS, BARE), (server, practice), SLOW_RECORDS)
    walls = {name: middle(runs).wall for name, runs in figures.items()}
    limit = Limit("at most", TO_LATENCY * pages * LATENCY)
    record("export_latency", [Row("time", "s", walls[OURS], BARE, walls[BARE], limit)])


def main() -> None:
    """Measure and print; or export once, as one of the processes that this starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS, help="what is measured")
    parser.add_argument("--sizes", type=int, nargs="+", default=GROWING, help="the records of which growth is measured")
    parser.add_argument("--export", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.export:
        name, base, practice, file = arguments.export
        figure = export(name, base, practice, Path(file))
        sys.stdout.write(f"\n{json.dumps(figure)}\n")
        return
    if "compare" in arguments.parts:
        compare()
    if "grow" in arguments.parts:
        grow(arguments.sizes)
    if "wait" in arguments.parts:
        wait()


if __name__ == "__main__":
    main()
