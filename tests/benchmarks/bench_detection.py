"""
From the reading that shows a high CPU to the request for the hot threads: in one step, and by a sensor before a task.

A real scheduler and triggerer run the three ways at the same time, each on a cluster of its own that runs hot when all
of them wait. What is measured lies between two moments that one process sees: it has sent the reply that shows the high
CPU, and the request for the hot threads is there. Run by `make benchmarks`, or `python -m
tests.benchmarks.bench_detection`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from scripts.local_airflow import LocalAirflow
from tests.benchmarks.results import Limit, Row, record
from tests.system.running import wait_for

WAYS = ("capture", "poking_sensor", "deferrable_sensor")
ROUNDS = 10
# All ways wait for this long before the CPU rises; the slots that they hold meanwhile are counted.
WAITING = 5.0
HOT = 85.0
MOST_MS = 10.0
REPORT = b"""::: {n1}{id1}{eph}{127.0.0.1}{127.0.0.1:9300}{d}{}
   Hot threads at 2026-01-01T00:00:00Z, interval=10ms, busiestThreads=3, ignoreIdleThreads=true:

"""


@dataclass
class Watched:
    """Clusters, one a way and round, and when each of them showed a high CPU and was asked for its hot threads."""

    heated: set[str] = field(default_factory=set)
    readings: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    shown: dict[str, float] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)

    def answer(self, cluster: str, path: str) -> tuple[str, bytes, Callable[[], None]]:
        """Give a reply, and what to do when it is sent."""
        if path.partition("?")[0].endswith("/hot_threads"):
            self.asked.setdefault(cluster, time.perf_counter())
            return "text/plain", REPORT, lambda: None
        hot = cluster in self.heated
        return "application/json", _statistics(99 if hot else 3), lambda: self._sent(cluster, hot=hot)

    def _sent(self, cluster: str, *, hot: bool) -> None:
        self.readings[cluster] += 1
        if hot:
            self.shown.setdefault(cluster, time.perf_counter())


def _statistics(percent: int) -> bytes:
    cpu = {"percent": percent}
    node = {"name": "n1", "host": "127.0.0.1", "os": {"cpu": cpu}, "process": {"cpu": cpu}}
    return json.dumps({"_nodes": {"total": 1, "successful": 1, "failed": 0}, "nodes": {"id1": node}}).encode()


@contextmanager
def serving(watched: Watched) -> Iterator[str]:
    """Serve the clusters, each below a path of its name."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            _, cluster, path = self.path.split("/", 2)
            kind, body, sent = watched.answer(cluster, f"/{path}")
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
            sent()

        def log_message(self, format: str, *args: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)


@dataclass
class Figures:
    """What was measured of one way: seconds from the reading to the request, and shares of slots held while waiting."""

    delays: list[float] = field(default_factory=list)
    held: list[float] = field(default_factory=list)


def measure(airflow: LocalAirflow, watched: Watched, rounds: int) -> dict[str, Figures]:
    """Let all ways wait, round after round, and heat their clusters."""
    figures = {way: Figures() for way in WAYS}
    for number in range(rounds):
        clusters = {way: f"{way}_{number}" for way in WAYS}
        run_ids = {way: airflow.trigger(way, {"cluster": cluster}) for way, cluster in clusters.items()}
        wait_for(lambda: all(watched.readings[name] >= 2 for name in clusters.values()), "all of them wait")  # noqa: B023
        samples = _held(airflow, run_ids)
        # Not always in the same moment between two readings.
        time.sleep(number / rounds)
        watched.heated |= set(clusters.values())
        wait_for(lambda: all(name in watched.asked for name in clusters.values()), "all have asked")  # noqa: B023
        for way, run_id in run_ids.items():
            airflow.wait(way, run_id)
            figures[way].delays.append(watched.asked[clusters[way]] - watched.shown[clusters[way]])
            figures[way].held.append(samples[way])
    return figures


def _held(airflow: LocalAirflow, run_ids: dict[str, str]) -> dict[str, float]:
    seen: dict[str, list[bool]] = {way: [] for way in run_ids}
    end = time.monotonic() + WAITING
    while time.monotonic() < end:
        for way, run_id in run_ids.items():
            states = {task.task_id: task.state for task in airflow.task_instances(way, run_id)}
            seen[way].append(states["wait"] in ("queued", "running"))
        time.sleep(0.25)
    return {way: sum(held) / len(held) for way, held in seen.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    watched = Watched()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(serving(watched))
        connections = {
            f"AIRFLOW_CONN_{way}_{number}".upper(): json.dumps(
                {"conn_type": "mediaops_cluster", "host": f"{url}/{way}_{number}", "extra": {"auth": "none"}}
            )
            for way in WAYS
            for number in range(options.rounds)
        }
        env = {**connections, "MEDIAOPS_OUTPUT": str(scratch), "MEDIAOPS_THRESHOLD": str(HOT)}
        dags = Path(__file__).parent / "dags"
        airflow = stack.enter_context(LocalAirflow(scratch / "home", dags=dags, env=env))
        figures = measure(airflow, watched, options.rounds)
    delays = {way: 1_000 * statistics.median(figures[way].delays) for way in WAYS}
    held = {way: 60 * statistics.mean(figures[way].held) for way in WAYS}
    ours, *peers = WAYS
    limit, names = Limit("at most", MOST_MS), [f"a {way.replace('_', ' ')} before a task" for way in peers]
    what = "from the reading to the request for hot threads, median"
    slots = "worker slot held, for each minute of waiting"
    record(
        "detection",
        [
            *(Row(what, "ms", delays[ours], name, delays[way], limit) for way, name in zip(peers, names, strict=True)),
            *(Row(slots, "s", held[ours], name, held[way]) for way, name in zip(peers, names, strict=True)),
        ],
    )


if __name__ == "__main__":
    main()
