"""
One rate for many processes: how much of a key's rate they use together, how fairly, and whether the service refuses.

Each case has a key and a back end of its own at a stand-in service, which admits so many requests in any second,
strictly, and refuses the rest; as many processes as the case says ask it as fast as the limiter lets them. The
service's own log is what counts. Run by `make benchmarks`, or `python -m tests.benchmarks.bench_rate_limit`.

`--seconds` is the time of a case. Cases of a slow rate are measured at the same time: their processes sleep almost
always.

Before these, a thousand callers in made-up time.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING

import requests

from airflow_provider_mediaops.http.rate_limit.backends import backend_at
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.runner import run
from tests.benchmarks.results import Limit, Row, record
from tests.redis_server import PROGRAM, running_redis
from tests.unit.http.rate_limit.callers import World

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Request, Response

ROOT = Path(__file__).parents[2]
PROCESSES, RATES, SECONDS = (1, 4, 16, 64), (1, 3, 5, 50), 30.0
LEAST_USED = 96.5
LEAST_SHARE, MOST_SHARE = 60.0, 140.0
# A process whose turn comes this often has its share.
TURNS = 3
# Cases of this rate and above keep the machine busy, so they are measured one after the other.
FAST = 50
RESERVATIONS = 2_000


@dataclass(frozen=True)
class Case:
    """
    A case to measure.

    :param backend: the address of a back end for this case alone.
    :param processes: how many ask at the same time.
    :param rate: the requests a second that the service admits.
    """

    kind: str
    backend: str
    processes: int
    rate: int

    @property
    def key(self) -> str:
        """The key of its own."""
        return f"{self.rate}-{self.kind}-{self.processes}"


@dataclass(frozen=True)
class Figures:
    """The figures of a case: shares are those of the fair one, in percent as the rest."""

    requests: int
    used: float
    refused: float
    least: float
    most: float


def figures_of(log: Sequence[tuple[float, str, bool]], rate: int, processes: int) -> Figures:
    """Return the figures of a case from the service's log."""
    counts = Counter(process for _, process, _ in log)
    shares = [100 * counts[str(number)] * processes / len(log) for number in range(processes)]
    used = 100 * (len(log) - 1) / (log[-1][0] - log[0][0]) / rate
    refused = 100 * sum(not good for _, _, good in log) / len(log)
    return Figures(len(log), used, refused, min(shares), max(shares))


def measure(cases: Sequence[Case], base: str, seconds: float) -> Iterator[tuple[Case, Figures]]:
    """Measure cases at the same time, once all of them have been made ready, and read the service's log."""
    with ExitStack() as stack:
        asking = [
            stack.enter_context(started("asking", base, case.backend, case.key, case.processes)) for case in cases
        ]
        for process in asking:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in asking:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        # A second more for the wait before the first slot.
        time.sleep(1.0 + seconds)
        logs = [requests.get(f"{base}/log/{case.key}", timeout=60).json() for case in cases]
    for case, log in zip(cases, logs, strict=True):
        yield case, figures_of(log, case.rate, case.processes)


@contextmanager
def started(module: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a module of the folder beside this one, and end it with all that it has forked."""
    command = [sys.executable, "-m", f"tests.benchmarks.rate_limit.{module}", *map(str, arguments)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    with process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


class BackEnds:
    """Back ends that nobody else uses."""

    def __init__(self, folder: Path, kinds: list[str], stack: ExitStack) -> None:
        self.kinds = [kind for kind in kinds if kind != "redis" or PROGRAM]
        self._folder, self._count = folder, 0
        if "redis" in self.kinds:
            server = stack.enter_context(running_redis(folder, "--databases", "1000"))
            self._redis = server.url.removesuffix("/0")

    def new(self, kind: str) -> str:
        """Return the address of a new one."""
        self._count += 1
        folder = f"sqlite:///{self._folder}/rates-{self._count}.db"
        return folder if kind == "sqlite" else f"{self._redis}/{self._count}"


def cost_of(address: str) -> float:
    """Return the median time of a reservation in this process, in milliseconds."""
    limiter = limiter_for("cost", f"key {time.time()}", 1e6, backend_at(address))
    taken = []
    for _ in range(RESERVATIONS):
        start = time.perf_counter()
        run(limiter.acquire(), _send_nothing, lambda wait: time.sleep(wait.seconds))
        taken.append((time.perf_counter() - start) * 1000)
    return statistics.median(taken[10:])


def _send_nothing(request: Request) -> Response:
    raise AssertionError(request)


def measure_all(arguments: argparse.Namespace) -> None:
    """Measure every case, print a line each, and record them."""
    measured, rows = list[tuple[Case, Figures]](), list[Row]()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        backends = BackEnds(folder, arguments.backends, stack)
        service = stack.enter_context(started("service"))
        assert service.stdout
        base = f"http://127.0.0.1:{service.stdout.readline().strip()}"
        cases = [
            Case(kind, backends.new(kind), processes, rate)
            for rate, kind, processes in product(arguments.rates, backends.kinds, arguments.processes)
            if rate * arguments.seconds >= TURNS * processes
        ]
        for _, group in groupby(cases, lambda case: case.rate >= FAST and (case.kind, case.processes)):
            for case, figures in measure(list(group), base, arguments.seconds):
                measured.append((case, figures))
                _print(
                    f"{case.kind:8}{case.processes:4} processes{case.rate:4}/s"
                    f"{figures.requests:7} requests{figures.used:7.1f} % used{figures.refused:6.2f} % refused"
                    f"   shares {figures.least:.0f}-{figures.most:.0f} %"
                )
        for kind in backends.kinds:
            rows.append(Row(f"a reservation in {kind}, median", "ms", cost_of(backends.new(kind))))
            _print(f"{rows[-1].what}: {rows[-1].ours:.3f} ms")
    record("rate_limit", [*_rows(measured), *rows])


def _rows(measured: Sequence[tuple[Case, Figures]]) -> Iterator[Row]:
    """Yield the worst figures of each back end, over rates and numbers of processes."""
    for kind in dict.fromkeys(case.kind for case, _ in measured):
        found = [figures for case, figures in measured if case.kind == kind]
        rates = ", ".join(map(str, sorted({case.rate for case, _ in measured})))
        most = max(case.processes for case, _ in measured)
        name = f"{kind}, {rates} a second, up to {most} processes"
        yield Row(f"{name}: used", "%", min(each.used for each in found), limit=Limit("at least", LEAST_USED))
        refused = max(each.refused for each in found)
        yield Row(f"{name}: refused", "%", refused, limit=Limit("at most", 0))
        least, largest = min(each.least for each in found), max(each.most for each in found)
        yield Row(f"{name}: least share", "%", least, limit=Limit("at least", LEAST_SHARE))
        yield Row(f"{name}: largest share", "%", largest, limit=Limit("at most", MOST_SHARE))


def measure_made_up() -> None:
    """Measure a thousand callers in made-up time, each of whom has four turns."""
    world = World(5, 1_000, often=0.05, longer=0.01).run(820.0)
    shares = [100 * share for share in world.shares()]
    used = Row("rate used", "%", 100 * world.used(), limit=Limit("at least", LEAST_USED))
    refused = Row("refused", "requests", len(world.refused), limit=Limit("at most", 0))
    least = Row("least share", "%", min(shares), limit=Limit("at least", LEAST_SHARE))
    most = Row("largest share", "%", max(shares), limit=Limit("at most", MOST_SHARE))
    asked = Row("updates of the back end, for each request", "", world.backend.asked / len(world.sent))
    record("rate_limit_made_up", [used, refused, least, most, asked])


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the time of a case")
    parser.add_argument("--backends", nargs="+", default=["sqlite", "redis"])
    parser.add_argument("--processes", nargs="+", type=int, default=PROCESSES)
    parser.add_argument("--rates", nargs="+", type=int, default=RATES)
    arguments = parser.parse_args()
    measure_made_up()
    measure_all(arguments)


if __name__ == "__main__":
    main()
