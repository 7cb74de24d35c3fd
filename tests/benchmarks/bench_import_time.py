"""
What importing the operators and sensors adds to a DAG file's parse time, beside other providers.

Each figure is of fresh processes, on top of what every DAG file pays for Airflow itself. The providers take turns, so
that a busy moment of the machine does not fall on one of them alone; on a busy machine the time on the processor tells
more than that on the clock. Run by `make benchmarks`, or `python -m tests.benchmarks.bench_import_time`.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.fresh_process import environment, last_line_of
from tests.benchmarks.results import Limit, Row, record
from tests.benchmarks.rounds import in_rounds

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
before = set(sys.modules)
start, start_cpu = time.perf_counter(), time.process_time()
for module in json.loads(sys.argv[1]):
    importlib.import_module(module)
elapsed, cpu = time.perf_counter() - start, time.process_time() - start_cpu
print()
print(json.dumps([elapsed * 1000, cpu * 1000, len(set(sys.modules) - before)]))
"""


class Figure(NamedTuple):
    """What importing a provider's modules took in one fresh process.

    :param elapsed: milliseconds on the clock.
    :param cpu: milliseconds on the processor.
    :param modules: how many modules it loaded.
    """

    elapsed: float
    cpu: float
    modules: int


def measure(modules: list[str], home: Path) -> Figure:
    """Import modules in a fresh process."""
    line = last_line_of(["-c", _MEASURE, json.dumps(modules)], environment(home), seconds=SECONDS, folder=home)
    return Figure(*json.loads(line))


def measure_all(home: Path) -> dict[str, list[Figure]]:
    """Measure each provider that is installed, once a round."""
    installed = {name: modules for name, modules in MODULES.items() if _is_installed(modules[0])}
    return in_rounds({name: partial(measure, modules, home) for name, modules in installed.items()}, ROUNDS)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def report(figures: dict[str, list[Figure]]) -> str:
    """Put the figures into a table."""
    ours = statistics.median(run.elapsed for run in figures[OURS])
    lines = [f"{'provider':15}{'median ms':>10}{'to ours':>9}{'min':>8}{'max':>8}{'cpu ms':>8}{'modules':>9}"]
    for name, runs in figures.items():
        times = [run.elapsed for run in runs]
        median, cpu = statistics.median(times), statistics.median(run.cpu for run in runs)
        lines.append(
            f"{name:15}{median:10.1f}{median / ours:8.1f}x{min(times):8.1f}{max(times):8.1f}{cpu:8.1f}"
            f"{runs[0].modules:9d}"
        )
    missing = [name for name in MODULES if name not in figures]
    lines += [f"not installed: {', '.join(missing)}"] if missing else []
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as home:
        figures = measure_all(Path(home))
    sys.stdout.write(f"Import time on top of airflow.sdk, {ROUNDS} fresh processes each\n{report(figures)}\n")
    ours, *peers = ((name, statistics.median(run.cpu for run in runs)) for name, runs in figures.items())
    limit = Limit("at most", MOST_MS)
    what = "import of all operators and sensors, processor time"
    record("import_time", [Row(what, "ms", ours[1], f"{name} provider", cpu, limit) for name, cpu in peers])


if __name__ == "__main__":
    main()
