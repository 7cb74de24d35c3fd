"""
What Airflow does with the provider before a task runs: it reads its description, and parses DAG files.

Each figure is processor time of a fresh process, after Airflow itself is loaded; ours and the peers take turns. A DAG
file of ours has each operator and sensor once, that of the peer as many tasks of Airflow's own. Run by `make
benchmarks`, or `python -m tests.benchmarks.bench_startup`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.results import Row, record

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
    # Byte code comes from the disk, as in an installed package.
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("AIRFLOW_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    done = subprocess.run(
        [sys.executable, "-c", program, argument],
        env={**clean, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{argument} failed:\n{done.stderr[-4000:]}")
    milliseconds, count = done.stdout.splitlines()[-1].split()
    return float(milliseconds), int(count)


def in_turns(program: str, arguments: dict[str, str], home: Path) -> dict[str, float]:
    """Measure each argument once a round; return the medians. The round before the first only writes byte code."""
    times: dict[str, list[float]] = {name: [] for name in arguments}
    counts = set()
    for round_number in range(ROUNDS + 1):
        for name, argument in arguments.items():
            milliseconds, count = measure(program, argument, home)
            counts.add(count)
            if round_number:
                times[name].append(milliseconds)
    if program == _PARSE and len(counts) > 1:
        raise RuntimeError(f"The DAG files have different numbers of tasks: {json.dumps(sorted(counts))}.")
    return {name: statistics.median(each) for name, each in times.items()}


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
