"""
One thousand and five thousand triggers that wait on one cluster, in one process: what they cost.

That is the delay of the event loop, the memory, and the requests to the cluster.

They run in Airflow's own `TriggerRunner.run_trigger`, without its supervisor, against a stand-in cluster of 20 nodes in
another process, and start at random moments of one interval. What is measured begins when all have started. Each form
is measured in a process of its own; "alone" is what they would cost if each read by itself, over a session of its own,
and is measured with fewer of them. Run by `make benchmarks`, or `python -m tests.benchmarks.bench_triggers`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from tests.benchmarks.fresh_process import environment, last_line_of
from tests.benchmarks.results import Limit, Row, record
from tests.benchmarks.stand_in_cluster import NODES, readings_of

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger

# Half of the triggers watch all nodes, the others one each: what the cluster is asked must not depend on it.
FORMS = {
    "CpuSensorTrigger": "shared: one reading for all",
    "CaptureHotThreadsTrigger": "shared, too",
    "alone": "each reads by itself",
}
CONN_ID = "cluster_bench"
PROBE_SECONDS = 0.01
WARM_UP_SECONDS = 4.0
# It only ends what hangs: five thousand start on a busy machine.
START_SECONDS = 300.0
LONGEST_DELAY_MS, LARGEST_KB = 10.0, 100.0
# For so many, the delay has a limit: as many as a triggerer runs by default.
LIMITED = 1_000
_SEED = 7


@dataclass(frozen=True)
class Figures:
    """
    What the triggers of one process cost.

    :param triggers: how many there are.
    :param delays: the median, the 99th percentile and the highest delay of the event loop, in milliseconds.
    :param cpu: time on the processor, in percent of one.
    """

    triggers: int
    requests: float
    delays: tuple[float, float, float]
    kilobytes: float
    cpu: float


@contextmanager
def stand_in_cluster() -> Iterator[str]:
    """Run a cluster in a process of its own; give its address."""
    command = [sys.executable, "-m", "tests.benchmarks.stand_in_cluster"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def measure_in_a_process(form: str, address: str, arguments: argparse.Namespace, number: int, home: Path) -> Figures:
    """Measure one form in a fresh process."""
    connection = {"conn_type": "mediaops_cluster", "host": address}
    variables = {"_AIRFLOW_PROCESS_CONTEXT": "client", f"AIRFLOW_CONN_{CONN_ID.upper()}": json.dumps(connection)}
    triggers = number if form != "alone" else math.ceil(number / arguments.fewer)
    options = ["--triggers", triggers, "--seconds", arguments.seconds, "--interval", arguments.interval]
    options += ["--form", form, "--address", address]
    line = last_line_of(
        ["-m", "tests.benchmarks.bench_triggers", *options],
        environment(home, **variables),
        seconds=arguments.seconds + 10 * arguments.interval + 2 * START_SECONDS,
    )
    fields = json.loads(line)
    return Figures(**{**fields, "delays": tuple(fields["delays"])})


async def measure(form: str, address: str, triggers: int, seconds: float, interval: float) -> Figures:
    """Let triggers wait in this process, and measure what it costs."""
    from airflow.jobs.triggerer_job_runner import TriggerRunner

    runner: Any = TriggerRunner()
    process, chance = psutil.Process(), random.Random(_SEED)  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:

        async def start(number: int, *, after: float) -> None:
            await asyncio.sleep(after)
            runner.triggers[number] = {"name": f"{number}", "events": 0, "is_watcher": False}
            await runner.run_trigger(number, make(form, number, interval, Path(folder)))

        # The first pays for imports and the like.
        first = asyncio.create_task(start(triggers, after=0))
        await asyncio.sleep(WARM_UP_SECONDS)
        before = _memory(process)
        tasks = [asyncio.create_task(start(number, after=chance.uniform(0, interval))) for number in range(triggers)]
        await _settled(lambda: len(runner.triggers) > triggers, interval)
        since, spent = time.time(), time.process_time()
        delays = await _delays(seconds)
        until, spent = time.time(), time.process_time() - spent
        ended = [task for task in tasks if task.done()]
        assert not ended, ended[0]
        memory = _memory(process) - before
        for task in (first, *tasks):
            task.cancel()
        await asyncio.gather(first, *tasks, return_exceptions=True)
    requests = [at for at in readings_of(address) if since <= at < until]
    cuts = statistics.quantiles(delays, n=100)
    return Figures(
        triggers=triggers,
        # Over whole gaps: the window begins and ends somewhere between two requests.
        requests=(len(requests) - 1) * interval / (requests[-1] - requests[0]),
        delays=(cuts[49] * 1000, cuts[98] * 1000, max(delays) * 1000),
        kilobytes=memory / triggers / 1000,
        cpu=100 * spent / (until - since),
    )


async def _settled(have_started: Callable[[], bool], interval: float) -> None:
    """Wait until all have started, and then two intervals: what they do once is not part of the figures."""
    deadline = time.monotonic() + START_SECONDS
    while not have_started():
        if time.monotonic() > deadline:
            raise TimeoutError(f"The triggers have not started within {START_SECONDS:.0f} s.")
        await asyncio.sleep(PROBE_SECONDS)
    await asyncio.sleep(2 * interval)


async def _delays(seconds: float) -> list[float]:
    loop = asyncio.get_running_loop()
    delays, end = [], loop.time() + seconds
    while (before := loop.time()) < end:
        await asyncio.sleep(PROBE_SECONDS)
        delays.append(loop.time() - before - PROBE_SECONDS)
    return delays


def _memory(process: psutil.Process) -> int:
    gc.collect()
    used: int = process.memory_full_info().uss
    return used


def make(form: str, number: int, interval: float, folder: Path) -> BaseTrigger:
    """Make a trigger that waits in vain."""
    from airflow_provider_mediaops.triggers.cluster import CpuSensorTrigger

    nodes = [NODES[number % len(NODES)]] if number % 2 else None
    if form == "CpuSensorTrigger":
        return CpuSensorTrigger(
            conn_id=CONN_ID,
            watch={"threshold": 85, "sustained_for": 60, "nodes": nodes},
            pace={"interval_seconds": interval},
            began=time.time(),
            deadline=time.time() + 3600,
        )
    if form == "CaptureHotThreadsTrigger":
        return _capture(nodes, interval, folder / f"{number}.txt")
    return _alone(nodes, interval)


def _capture(nodes: list[str] | None, interval: float, destination: Path) -> BaseTrigger:
    from airflow_provider_mediaops.cluster.capture.plan import CapturePlan
    from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch
    from airflow_provider_mediaops.cluster.query import HotThreadsQuery
    from airflow_provider_mediaops.triggers.cluster import CaptureHotThreadsTrigger

    plan = CapturePlan(HotThreadsQuery(nodes), CpuWatch(85, sustained_for=60, nodes=nodes), poll_interval=interval)
    return CaptureHotThreadsTrigger(
        conn_id=CONN_ID,
        plan=plan.to_dict(),
        destination=str(destination),
        formats=["txt"],
        deadline=time.time() + 3600,
        taken_for={},
    )


def _alone(nodes: list[str] | None, interval: float) -> BaseTrigger:
    from airflow.triggers.base import BaseTrigger, TriggerEvent

    from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch
    from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
    from airflow_provider_mediaops.waiting import Pace, Progress, Term, wait

    class AloneTrigger(BaseTrigger):
        def serialize(self) -> tuple[str, dict[str, Any]]:
            return "alone", {}

        async def run(self) -> AsyncIterator[TriggerEvent]:
            watch = CpuWatch(85, sustained_for=60, nodes=nodes)
            with SearchClusterHook(CONN_ID) as hook:
                readings = partial(hook.next_reading, watch.look, time.monotonic)
                judge, term = watch.judge(time.monotonic), Term(time.monotonic, time.monotonic())
                await hook.arun(wait(readings, judge, Pace(interval), Progress(self.log.log), term))
            yield TriggerEvent(None)

    return AloneTrigger()  # type: ignore[no-untyped-call]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triggers", type=int, nargs="+", default=[1_000, 5_000])
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each form is measured")
    parser.add_argument("--interval", type=float, default=3.0, help="seconds between two readings")
    parser.add_argument("--fewer", type=int, default=10, help="one trigger alone for so many that share")
    parser.add_argument("--form", choices=FORMS, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure and print; or, in a process of its own, measure one form."""
    arguments = _arguments()
    if arguments.form:
        logging.disable(logging.CRITICAL)
        found = asyncio.run(
            measure(arguments.form, arguments.address, arguments.triggers[0], arguments.seconds, arguments.interval)
        )
        sys.stdout.write(f"\n{json.dumps(asdict(found))}\n")
        return
    rows: list[Row] = []
    for number in arguments.triggers:
        figures = {}
        with tempfile.TemporaryDirectory() as home:
            for form in FORMS:
                with stand_in_cluster() as address:
                    figures[form] = measure_in_a_process(form, address, arguments, number, Path(home))
        rows += _rows(figures, number)
    record("triggers", rows)


def _rows(figures: dict[str, Figures], number: int) -> Iterator[Row]:
    ours, alone = figures["CpuSensorTrigger"], figures["alone"]
    name, peer = f"{number:,} triggers", f"{alone.triggers:,} that each read by themselves"
    limit = Limit("at most", LONGEST_DELAY_MS) if number == LIMITED else None
    yield Row(f"{name}: delay of the event loop, 99 %", "ms", ours.delays[1], peer, alone.delays[1], limit)
    captures = figures["CaptureHotThreadsTrigger"]
    yield Row(f"{name} of captures: delay, 99 %", "ms", captures.delays[1], peer, alone.delays[1], limit)
    most = Limit("at most", LARGEST_KB)
    yield Row(f"{name}: memory of each", "kB", ours.kilobytes, peer, alone.kilobytes, most)
    yield Row(f"{name}: requests in an interval", "", ours.requests, peer, alone.requests)
    yield Row(f"{name}: processor", "%", ours.cpu, peer, alone.cpu)


if __name__ == "__main__":
    main()
