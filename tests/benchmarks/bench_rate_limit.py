"""
One rate for many processes: how much of a key's rate they use together, how fairly, and whether the service refuses.

Each case has a key and a store of its own at a stand-in service, which admits so many requests in any second, strictly,
and refuses the rest; as many processes as the case says ask it as fast as the limiter lets them. The service's own log
is what counts. Run by `make benchmarks`, or `python -m tests.benchmarks.bench_rate_limit`. On a machine that is busy
with other things, the stand-in service and its clock are late themselves.

Cases of one weather are measured at the same time, in groups of up to 64 processes, once all of these have started; a
case's figures are those of its own time. Those of 50 a second are measured by themselves. `--one-by-one` measures every
case by itself, and for a shorter time.

`--weather` chooses what else happens: `plain`, the service replies at once (13 minutes); `jitter`, it replies after
80 ms ± 30 % (31 minutes); `late`, in addition two in a hundred of the wake-ups and of the replies are late by up to
400 ms (46 minutes). `--against COMMIT` measures each case with the package as it was at that commit, too, which takes
twice as long. Starting the processes takes a tenth of that in addition. `--seconds` is the least time for a case, which
grows so that there are enough requests, in all and of each process.

Before these, ten thousand callers in made-up time, beside callers that poll; `--made-up` measures only them.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.http.drivers import run
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.rate_limit.store_by_address import store_at
from tests.benchmarks.rate_limit import many
from tests.benchmarks.rate_limit.asking import send_nothing
from tests.benchmarks.rate_limit.cases import (
    BY_ITSELF_RATE,
    LEAST_SHARE,
    LEAST_USED,
    MOST_SHARE,
    ROOT,
    TOGETHER_SECONDS,
    Case,
    Figures,
    measure,
    started,
    together,
)
from tests.benchmarks.rate_limit.weather import WEATHERS
from tests.benchmarks.ratios.peers import PlainLimiter
from tests.benchmarks.results import Limit, Row, record
from tests.redis_server import PROGRAM, running_redis

if TYPE_CHECKING:
    from collections.abc import Iterator

PROCESSES = (1, 4, 16, 64)
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


def cost_of_plain(path: Path) -> list[float]:
    """Measure single reservations in a limiter as one would write it, in milliseconds."""
    taken = []
    with closing(PlainLimiter(path, 5)) as limiter:
        for _ in range(RESERVATIONS):
            start = time.perf_counter()
            limiter.reserve("key")
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


def measure_all(arguments: argparse.Namespace) -> None:
    """Measure every case, print a line each, and record those of the package as it is."""
    ours, rows = list[tuple[Case, Figures]](), list[Row]()
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
                ours += [(case, figures)] if case.package == "now" else []
                _print(_line(case, figures))
        for kind in stores.kinds:
            cost = cost_of(stores.new(kind))
            _print(
                f"a reservation in {kind}: median {statistics.median(cost):.3f} ms, "
                f"99th percentile {cost[len(cost) * 99 // 100]:.3f} ms"
            )
            plain = statistics.median(cost_of_plain(folder / "plain.db")) if kind == "sqlite" else None
            peer = "a plain limiter in SQLite" if plain else None
            rows.append(Row(f"a reservation in {kind}, median", "ms", statistics.median(cost), peer, plain))
    record("rate_limit", [*_rows(ours), *rows])


def _rows(measured: list[tuple[Case, Figures]]) -> Iterator[Row]:
    """Yield the worst figures of each number of processes, over the rates."""
    rates = ", ".join(map(str, sorted({case.rate for case, _ in measured})))
    alike: dict[tuple[str, str, int], list[Figures]] = {}
    for case, figures in measured:
        alike.setdefault((case.weather, case.store, case.processes), []).append(figures)
    for (weather, store, processes), found in sorted(alike.items()):
        name = f"{processes} {'processes' if processes > 1 else 'process'}, {store}, {weather}, {rates} a second"
        used, least = min(each.used for each in found), min(each.least for each in found)
        yield Row(f"{name}: rate used", "%", 100 * used, limit=Limit("at least", 100 * LEAST_USED))
        yield Row(f"{name}: refused", "requests", sum(each.refused for each in found), limit=Limit("at most", 0))
        if processes > 1:
            most = max(each.most for each in found)
            yield Row(f"{name}: least share", "%", 100 * least, limit=Limit("at least", 100 * LEAST_SHARE))
            yield Row(f"{name}: largest share", "%", 100 * most, limit=Limit("at most", 100 * MOST_SHARE))


def measure_made_up() -> None:
    """Measure ten thousand callers in made-up time."""
    (used, refused, least, most, asked), polling = many.ours(), many.polling()
    peer = "callers that poll a log"
    record(
        "rate_limit_made_up",
        [
            Row("rate used", "%", 100 * used, peer, 100 * polling.used, Limit("at least", 100 * LEAST_USED)),
            Row("refused", "requests", refused, peer, polling.refused, Limit("at most", 0)),
            Row("least share", "%", 100 * least, peer, 100 * polling.least, Limit("at least", 100 * LEAST_SHARE)),
            Row("largest share", "%", 100 * most, peer, 100 * polling.most, Limit("at most", 100 * MOST_SHARE)),
            Row("requests to the store, for each to the service", "", asked, peer, polling.asked),
            Row("requests to the store a second", "", asked * used * many.RATE, peer, polling.asked * many.RATE),
        ],
    )


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
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
    parser.add_argument("--made-up", action="store_true", help="only the callers in made-up time")
    arguments = parser.parse_args()
    measure_made_up()
    if not arguments.made_up:
        measure_all(arguments)


if __name__ == "__main__":
    main()
