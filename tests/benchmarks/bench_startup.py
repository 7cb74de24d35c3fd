"""
What Airflow does with the provider before a task runs: it reads its description, and parses DAG files.

Each figure is processor time of a fresh process, after Airflow itself is loaded; ours and the peers take turns. A DAG
file of ours has each operator and sensor once, that of the peer as many tasks of Airflow's own. Run by `make
benchmarks`, or `python -m tests.benchmarks.bench_startup`.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from functools import partial
from pathlib import Path

from tests.benchmarks.fresh_process import environment, last_line_of
from tests.benchmarks.results import Row, record
from tests.benchmarks.rounds import in_rounds

ROUNDS = 5
SECONDS = 240
_PARSE = """
import sys, time
from airflow.dag_processing.dagbag import DagBag
start = time.process_time()
bag = DagBag(sys.argv[1])
taken = time.process_time() - start
assert not bag.import_errors, bag.import_errors
[dag] = bag.dags.values()
print()
print(taken * 1000, len(dag.tasks))
"""
_DESCRIBE = """
import importlib, sys, time
import airflow.providers_manager
start = time.process_time()
info = importlib.import_module(sys.argv[1]).get_provider_info()
taken = time.process_time() - start
print()
print(taken * 1000, len(info))
"""
_OURS = """
from airflow.sdk import DAG
from airflow_provider_mediaops.operators.books import EnrichIsbnsOperator
from airflow_provider_mediaops.operators.cluster import CaptureHotThreadsOperator
from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator, PostBulletinOperator
from airflow_provider_mediaops.sensors.books import BookSensor
from airflow_provider_mediaops.sensors.cluster import ClusterCpuSensor
from airflow_provider_mediaops.sensors.video import SubscriptionSensor

with DAG("ours", schedule=None):
    EnrichIsbnsOperator(task_id="enrich", isbns=["9780140449136"], destination="/data/books.jsonl")
    CaptureHotThreadsOperator(task_id="capture", destination="/data/hot.txt", when_cpu_above=85)
    ExportSubscriptionsOperator(task_id="export", destination="/data/subscriptions.jsonl", mine=True)
    PostBulletinOperator(task_id="post", text="Done.")
    BookSensor(task_id="book", isbn="9780140449136")
    ClusterCpuSensor(task_id="cpu", threshold=85)
    SubscriptionSensor(task_id="subscription", mine=True)
"""
_STANDARD = """
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.providers.standard.sensors.python import PythonSensor
from airflow.sdk import DAG

with DAG("standard", schedule=None):
    for number in range(4):
        PythonOperator(task_id=f"python_{number}", python_callable=print)
    BashOperator(task_id="bash", bash_command="true")
    for number in range(2):
        PythonSensor(task_id=f"sensor_{number}", python_callable=bool)
"""
PEER = "as many tasks of the standard provider"
DAGS = {"ours": _OURS, PEER: _STANDARD}
DESCRIPTIONS = {"ours": "airflow_provider_mediaops", "the http provider's": "airflow.providers.http"}


def measure(program: str, argument: str, home: Path) -> tuple[float, int]:
    """Run a program in a fresh process; return the milliseconds that it measured, and what it counted."""
    line = last_line_of(["-c", program, argument], environment(home), seconds=SECONDS, folder=home)
    milliseconds, count = line.split()
    return float(milliseconds), int(count)


def in_turns(program: str, arguments: dict[str, str], home: Path) -> dict[str, float]:
    """Measure each argument once a round; return the medians."""
    found = in_rounds({name: partial(measure, program, argument, home) for name, argument in arguments.items()}, ROUNDS)
    counts = {count for runs in found.values() for _, count in runs}
    if program == _PARSE and len(counts) > 1:
        raise RuntimeError(f"The DAG files have different numbers of tasks: {json.dumps(sorted(counts))}.")
    return {name: statistics.median(milliseconds for milliseconds, _ in runs) for name, runs in found.items()}


def main() -> None:
    """Measure and print."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        home, files = Path(folder), dict[str, str]()
        for number, (name, text) in enumerate(DAGS.items()):
            file = home / f"dag_{number}.py"
            file.write_text(text, encoding="utf-8")
            files[name] = str(file)
        parsed = in_turns(_PARSE, files, home)
        rows.append(Row("parse a DAG file of 7 tasks", "ms", parsed["ours"], PEER, parsed[PEER]))
        modules = {name: f"{package}.get_provider_info" for name, package in DESCRIPTIONS.items()}
        ours, *peers = in_turns(_DESCRIBE, modules, home).items()
        rows += [Row("import and call get_provider_info", "ms", ours[1], name, spent) for name, spent in peers]
    record("startup", rows)


if __name__ == "__main__":
    main()
