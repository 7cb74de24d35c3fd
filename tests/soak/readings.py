"""What a running Airflow holds: memory, descriptors, threads, connections, rows, and files."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import psutil

_MB = 1 << 20
_OF_ENDED_RUNS = "FROM dag_run WHERE state IN ('success', 'failed')"
# How a row says to which run it belongs, and the runs that have ended. Airflow keeps these rows until
# ``airflow db clean``; all others are to be gone with their run, or to be there before it.
_OF_A_RUN = {
    "run_id": f"SELECT run_id {_OF_ENDED_RUNS}",
    "source_run_id": f"SELECT run_id {_OF_ENDED_RUNS}",
    "dag_run_id": f"SELECT id {_OF_ENDED_RUNS}",
    "ti_id": f"SELECT id FROM task_instance WHERE run_id IN (SELECT run_id {_OF_ENDED_RUNS})",  # noqa: S608 it is ours
}


def figures_of_processes(components: Mapping[str, psutil.Process], alone: str) -> dict[str, float]:
    """
    Read what components hold, with the processes that they start themselves, such as the runner of the triggerer.

    :param alone: the component that is read without them: the workers of a scheduler hold more while tasks are at work.
    """
    figures: dict[str, float] = {}
    for name, process in components.items():
        children = [] if name == alone else process.children()
        started = [each for each in map(_held, children) if each]
        held = [each for each in (_held(process), *started) if each]
        for what in ("processes", "megabytes", "descriptors", "threads", "connections"):
            figures[f"{name}: {what}"] = sum(each[what] for each in held)
        if name != alone:
            figures[f"{name}: megabytes of its children"] = sum(each["megabytes"] for each in started)
    return figures


def figures_of_tables(home: Path) -> dict[str, float]:
    """Count the rows of Airflow's tables."""
    address = f"file:{home / 'airflow.db'}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=240)) as database:
        [(ended,)] = database.execute(f"SELECT count(*) {_OF_ENDED_RUNS}")
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return dict(_rows(database, table, max(ended, 1)) for table in tables if table != "dag_run")


def _rows(database: sqlite3.Connection, table: str, ended: int) -> tuple[str, float]:
    columns = {column for _, column, *_ in database.execute(f'PRAGMA table_info("{table}")')}
    # The names are the database's own.
    count = f'SELECT count(*) FROM "{table}"'  # noqa: S608
    for column, runs in _OF_A_RUN.items():
        if column in columns:
            [(rows,)] = database.execute(f"{count} WHERE {column} IN ({runs})")
            return f"rows a run: {table}", rows / ended
    [(rows,)] = database.execute(count)
    return f"rows: {table}", rows


def figures_of_files(folders: Iterable[Path]) -> dict[str, float]:
    """
    Count files, hidden ones too.

    For seven days, the log of each run keeps what its retry returns: there, the run with the most files counts.
    """
    figures: dict[str, float] = {}
    for folder in folders:
        sizes, logs = list[int](), Counter[Path]()
        for path, size in _sizes(folder):
            if path.parent.parent.name.endswith(".staging"):
                logs[path.parent] += 1
            else:
                sizes.append(size)
        figures[f"{folder.name}: files"] = len(sizes)
        figures[f"{folder.name}: files of a log"] = max(logs.values(), default=0)
        figures[f"{folder.name}: megabytes"] = sum(sizes) / _MB
    return figures


def _sizes(folder: Path) -> Iterator[tuple[Path, int]]:
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                yield path, path.stat().st_size
        except FileNotFoundError:
            # It was moved to its place meanwhile.
            continue


def _held(process: psutil.Process) -> dict[str, float] | None:
    try:
        with process.oneshot():
            memory = process.memory_info()
            return {
                "processes": 1,
                # What it has allocated. Pages count that it shares with the process that it was forked from: a full
                # garbage collection writes into them, and both processes would seem to grow.
                "megabytes": (memory.rss - memory.shared) / _MB,
                "descriptors": process.num_fds(),
                "threads": process.num_threads(),
                "connections": len(process.net_connections("tcp")),
            }
    except psutil.Error:
        # It has ended meanwhile.
        return None
