"""
What importing the operators and sensors adds to a DAG file's parse time, beside other providers.

Each figure is the processor time of fresh processes, on top of what every DAG file pays for Airflow itself. The
providers take turns, so that a busy moment of the machine does not fall on one of them alone. Run by `make benchmarks`,
or `python -m tests.benchmarks.bench_import_time`.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from functools import partial
from pathlib import Path

from tests.benchmarks.fresh_process import environment, in_rounds, last_line_of
from tests.benchmarks.results import Limit, Row, record

ROUNDS = 5
SECONDS = 120
OURS = "mediaops"
MOST_MS = 10.0
MODULES = {
    OURS: [
        f"airflow_provider_mediaops.{kind}.{service}"
        for kind in ("operators", "sensors")
        for service in ("video", "cluster", "books")
    ],
    "http": ["airflow.providers.http.operators.http", "airflow.providers.http.sensors.http"],
    # This one has no operators; a DAG file that uses it imports the hook.
    "elasticsearch": ["airflow.providers.elasticsearch.hooks.elasticsearch"],
    "opensearch": ["airflow.providers.opensearch.operators.opensearch"],
}
_MEASURE = """
import importlib, json, sys, time
from airflow.sdk import BaseOperator, BaseHook, BaseSensorOperator
start = time.process_time()
for module in json.loads(sys.argv[1]):
    importlib.import_module(module)
taken = time.process_time() - start
print()
print(taken * 1000)
"""


def measure(modules: list[str], home: Path) -> float:
    """Import modules in a fresh process; return the milliseconds on the processor."""
    return float(last_line_of(["-c", _MEASURE, json.dumps(modules)], environment(home), seconds=SECONDS, folder=home))


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as home:
        measures = {name: partial(measure, modules, Path(home)) for name, modules in MODULES.items()}
        figures = {name: statistics.median(runs) for name, runs in in_rounds(measures, ROUNDS).items()}
    ours, limit = figures.pop(OURS), Limit("at most", MOST_MS)
    what = "import of all operators and sensors, processor time"
    record("import_time", [Row(what, "ms", ours, f"{name} provider", cpu, limit) for name, cpu in figures.items()])


if __name__ == "__main__":
    main()
