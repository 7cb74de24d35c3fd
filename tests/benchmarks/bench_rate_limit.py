"""
One rate for many processes: how much of a key's rate they use together, how fairly, and whether the service refuses.

Each case has a key and a store of its own at a stand-in service, which admits so many requests in any second, strictly,
and refuses the rest; as many processes as the case says ask it as fast as the limiter lets them. The service's own log
is what counts. Run by `make benchmarks`, or `python -m tests.benchmarks.bench_rate_limit`. On a machine that is busy
with other things, the stand-in service and its clock are late themselves.

Cases of one weather are measured at the same time, in groups of up to 64 processes, once all of these have started; a
case's figures are those of its own time. Those of 50 a second are measured by themselves. `--one-by-one` measures every
case by itself, and for a shorter time.

`--weather` chooses what else happens: `plain`, the service replies at once (2 minutes); `jitter`, it replies after
80 ms ± 30 % (4 minutes); `late`, in addition two in a hundred of the wake-ups and of the replies are late by up to
400 ms (6 minutes). `--against 8b60460` measures each case with the package as it was at that commit, too (3, 6 and 9
minutes). Starting the processes takes a tenth of that in addition. `--seconds` is the least time for a case, which
grows so that there are enough requests, in all and of each process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.drivers import run
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.rate_limit.stores import store_at
from tests.benchmarks.rate_limit.asking import send_nothing
from tests.benchmarks.rate_limit.cases import (
    BY_ITSELF_RATE,
    ROOT,
    TOGETHER_SECONDS,
    Case,
    Figures,
    measure,
    started,
    together,
)
from tests.benchmarks.rate_limit.weather import WEATHERS
from tests.redis_server import PROGRAM, running_redis

if TYPE_CHECKING:
    from collections.abc import Iterator

PROCESSES = (1, 4, 16)
RATES = (1, 3, 5, 50)
SECONDS = 5.0
RESERVATIONS = 2_000
# Each case has a database of its own.
REDIS_DATABASES = 1_000


def cost_of(store: str) -> list[float]:
    """Measure single reservations in this process, in milliseconds."""
    limiter = limiter_for("cost", f"key {time.time()}", 1e6, store_at(store))
    taken = []
    for _ in range(RESERVATIONS):
        start = time.perf_counter()
        run(limiter.acquire(), send_nothing, lambda wait: time.sleep(wait.seconds))
        taken.append((time.perf_counter() - start) * 1000)
    return sorted(taken[10:])


class Stores:
    """
    Stores that nobody else uses.

    :param folder: where they are.
    :param kinds: which kinds are wanted.
    """

    def __init__(self, folder: Path, kinds: list[str], stack: ExitStack) -> None:
        self.kinds = [kind for kind in ("sqlite", "redis") if kind in kinds and (kind == "sqlite" or PROGRAM)]
        self._folder, self._count = folder, 0
        if "redis" in self.kinds:
            server = stack.enter_context(running_redis(folder, "--databases", str(REDIS_DATABASES)))
            self._redis = server.url.removesuffix("/0")

    def new(self, kind: str) -> str:
        """Return the address of a new one."""
        self._count += 1
        if kind == "sqlite":
            return f"sqlite:///{self._folder}/rates-{self._count}.db"
        return f"{self._redis}/{self._count}"


def _line(case: Case, figures: Figures) -> str:
    return (
        f"{case.package:9}{case.weather:8}{case.store:8}{case.processes:10d}{case.rate:6d}{figures.requests:10d}"
        f"{figures.used:9.1%}{figures.refused:9d}{figures.least:8.0%}{figures.most:8.0%}   "
        f"{'holds' if figures.holds else 'DOES NOT HOLD'}"
    )


def _least_seconds(arguments: argparse.Namespace, weather: str, rate: int) -> float:
    is_alone = arguments.one_by_one or rate >= BY_ITSELF_RATE
    seconds: float = arguments.seconds
    return seconds if is_alone else max(seconds, TOGETHER_SECONDS[weather])


@contextmanager
def _package_at(commit: str) -> Iterator[Path]:
    """Lay out the package as it was at a commit, beside the tests as they are."""
    with tempfile.TemporaryDirectory() as folder:
        git, archive = shutil.which("git"), Path(folder, "package.tar")
        assert git
        command = [git, "archive", "--output", str(archive), commit, "airflow_provider_mediaops"]
        subprocess.run(command, cwd=ROOT, check=True)
        shutil.unpack_archive(archive, folder)
        for name in ("tests", "scripts"):
            Path(folder, name).symlink_to(ROOT / name)
        yield Path(folder)


def measure_all(arguments: argparse.Namespace) -> bool:
    """Measure every case, print a line each, and tell whether all of them hold with the package as it is."""
    hold = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stores = Stores(folder, arguments.stores, stack)
        packages = {"now": ROOT}
        if arguments.against:
            packages["former"] = stack.enter_context(_package_at(arguments.against))
        service = stack.enter_context(started(["service"]))
        assert service.stdout
        base = f"http://127.0.0.1:{service.stdout.readline().strip()}"
        _print(
            f"{'package':9}{'weather':8}{'store':8}{'processes':>10}{'rate':>6}{'requests':>10}{'used':>9}"
            f"{'refused':>9}{'least':>8}{'most':>8}"
        )
        cases = [
            Case(
                package,
                root,
                weather,
                store,
                stores.new(store),
                processes,
                rate,
                _least_seconds(arguments, weather, rate),
            )
            for weather, store, processes, rate, (package, root) in product(
                arguments.weather, stores.kinds, arguments.processes, arguments.rates, packages.items()
            )
        ]
        for group in together(cases, one_by_one=arguments.one_by_one):
            for case, figures in measure(group, base, on_loop=arguments.on_loop):
                hold.append(figures.holds or case.package != "now")
                _print(_line(case, figures))
        for kind in stores.kinds:
            cost = cost_of(stores.new(kind))
            _print(
                f"a reservation in {kind}: median {statistics.median(cost):.3f} ms, "
                f"99th percentile {cost[len(cost) * 99 // 100]:.3f} ms"
            )
    return all(hold)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the least time of a case")
    parser.add_argument("--stores", nargs="+", default=["sqlite", "redis"])
    parser.add_argument("--processes", nargs="+", type=int, default=PROCESSES)
    parser.add_argument("--rates", nargs="+", type=int, default=RATES)
    parser.add_argument("--weather", nargs="+", choices=WEATHERS, default=["plain"])
    parser.add_argument("--against", metavar="COMMIT", help="measure the package of a commit, too")
    parser.add_argument("--on-loop", action="store_true", help="ask from event loops, as a triggerer does")
    parser.add_argument("--one-by-one", action="store_true", help="measure each case by itself")
    return os.EX_OK if measure_all(parser.parse_args()) else os.EX_SOFTWARE


if __name__ == "__main__":
    sys.exit(main())
