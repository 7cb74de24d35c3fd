"""
The ratios that the short form measures, each in a process of its own: ours beside a peer that does work of its kind.

Of the same kind, so that what makes one slower makes the other slower as much: both open files, both ask a server, both
run byte code. A peer of mere system calls beside work of mere Python is another ratio on each machine.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from airflow_provider_mediaops.cluster.folded import measures
from airflow_provider_mediaops.cluster.hot_threads.parser import parse
from airflow_provider_mediaops.cluster.kinds_of_work import labels
from airflow_provider_mediaops.sandbox.books.catalogue import sample_isbns
from tests.benchmarks import bench_export, bench_import_time
from tests.benchmarks.bench_hot_threads import REPORTS, text_of
from tests.benchmarks.fresh_process import spent
from tests.benchmarks.ratios.peers import look_up, match_lines
from tests.book_server import book_server
from tests.page_server import A_PAGE, page_server

#: How much is done in a turn.
PAGES, BOOKS, REPORT_SIZE = 100, 200, 250_000
#: Turns of work that takes up to 0.2 s, and of work that takes a few milliseconds.
FEW, MANY = 30, 300
#: The share of the turns of each that are taken for undisturbed.
UNDISTURBED = 0.1
# What a DAG file imports of Airflow's own operators and sensors.
_STANDARD = [f"airflow.providers.standard.{name}" for name in ("operators.python", "operators.bash", "sensors.python")]


def export(folder: Path) -> float:
    """Export subscriptions with the operator, and with a loop over a session."""
    with page_server(PAGES) as server:

        def by(name: str) -> Callable[[], float]:
            run, file = bench_export.CONTENDERS[name], folder / f"{name}.jsonl"
            return lambda: _rows_checked(lambda: run(server.base, file), file, PAGES * A_PAGE)

        return undisturbed_ratio(by(bench_export.OURS), by(bench_export.BARE), FEW)


def enrichment(folder: Path) -> float:
    """Look up books with the operator, and with httpx on an event loop."""
    from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator

    isbns = sample_isbns(BOOKS)
    ours, peer = folder / "ours.jsonl", folder / "peer.jsonl"
    with book_server() as server:
        extra = {"requests_per_second": 1e5, "plan": "pro", "rate_limit_store": "memory://"}
        connection = {"conn_type": "mediaops_books", "host": server.base, "password": "key", "extra": extra}
        os.environ["AIRFLOW_CONN_MEDIAOPS_BOOKS_DEFAULT"] = json.dumps(connection)

        def enrich() -> None:
            EnrichIsbnsOperator(task_id="enrich", destination=str(ours), isbns=isbns).execute({})

        return undisturbed_ratio(
            lambda: _rows_checked(enrich, ours, BOOKS),
            lambda: _rows_checked(lambda: look_up(server.base, isbns, peer), peer, BOOKS),
            FEW,
        )


def imports(_folder: Path) -> float:
    """Import our operators and sensors, and some of those that come with Airflow."""
    # What every DAG file pays for.
    importlib.import_module("airflow.sdk").BaseOperator  # noqa: B018 it is loaded when it is asked for
    ours = bench_import_time.MODULES[bench_import_time.OURS]
    return undisturbed_ratio(lambda: _import_in_a_fork(ours), lambda: _import_in_a_fork(_STANDARD), FEW)


def hot_threads(_folder: Path) -> float:
    """Parse a report of hot threads, and match a pattern against each of its lines."""
    text = text_of(REPORTS["OpenSearch 2.19"](), REPORT_SIZE)
    return undisturbed_ratio(lambda: spent(lambda: parse(text)), lambda: spent(lambda: match_lines(text)), MANY)


def hot_kinds(_folder: Path) -> float:
    """Parse a report of hot threads and label its work, and match a pattern against each of its lines."""
    text = text_of(REPORTS["OpenSearch 2.19"](), REPORT_SIZE)

    def label() -> None:
        report = parse(text)
        if not labels.hot_kinds(report, measures([report])[0]):
            raise RuntimeError("The report has no kind of work.")

    return undisturbed_ratio(lambda: spent(label), lambda: spent(lambda: match_lines(text)), MANY)


MEASURES: dict[str, Callable[[Path], float]] = {
    "export, to a loop over a session": export,
    "enrichment, to httpx on an event loop": enrichment,
    "import, to operators and sensors of Airflow's own": imports,
    "parsing hot threads, to a pattern matched against each line": hot_threads,
    "parsing and labelling hot threads, to a pattern matched against each line": hot_kinds,
}


def _rows_checked(work: Callable[[], object], file: Path, rows: int) -> float:
    """Do a piece of work, and make sure that all is there; return the processor time of the work."""
    taken = spent(work)
    with file.open("rb") as opened:
        found = sum(1 for _ in opened)
    if found != rows:
        raise RuntimeError(f"{file.name} has {found} rows, not {rows}.")
    file.unlink()
    return taken


def _import_in_a_fork(modules: Sequence[str]) -> float:
    """Import modules in a copy of this process, which has none of them; return its processor time."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        # Whatever happens, the copy does not go on as this process.
        try:
            taken = spent(lambda: [importlib.import_module(module) for module in modules])
            os.write(writing, str(taken).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="ascii") as opened:  # noqa: PTH123 it is not the path
        answer = opened.read()
    os.waitpid(pid, 0)
    if not answer:
        raise RuntimeError(f"{', '.join(modules)} cannot be imported.")
    return float(answer)


def undisturbed_ratio(ours: Callable[[], float], peer: Callable[[], float], turns: int) -> float:
    """
    Do two pieces of work by turns, and compare the times that they take undisturbed.

    What else a machine does makes a turn longer: another program takes the caches, or the processor slows down. Both
    have many short turns in each state of the machine, so their fast turns are of the same state.

    :param turns: how many turns each has.
    """
    # What is imported or opened once is not part of a turn, nor is looking through it for garbage.
    ours()
    peer()
    gc.collect()
    gc.freeze()
    pairs: list[tuple[float, float]] = []
    for _ in range(turns):
        # No turn clears away what the one before has left.
        gc.collect()
        our_time = ours()
        gc.collect()
        pairs.append((our_time, peer()))
    gc.unfreeze()
    our_times, peer_times = zip(*pairs, strict=True)
    return _undisturbed(our_times) / _undisturbed(peer_times)


def _undisturbed(times: Sequence[float]) -> float:
    return sorted(times)[int(UNDISTURBED * len(times))]
