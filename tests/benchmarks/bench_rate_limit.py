"""
One rate for many processes: how much of a key's rate they use together, how fairly, and whether the service refuses.

Each case has a key of its own at a stand-in service, which admits so many requests in any second, strictly, and refuses
the rest; as many processes as the case says ask it as fast as the limiter lets them. The service's own log is what
counts. Run by `make benchmarks`, or `python -m tests.benchmarks.bench_rate_limit`. On a machine that is busy with other
things, the stand-in service and its clock are late themselves.

`--weather` chooses what else happens: `plain`, the service replies at once (6 minutes); `jitter`, it replies after
80 ms ± 30 % (15 minutes); `late`, in addition two in a hundred of the wake-ups and of the replies are late by up to
400 ms (25 minutes). `--against 8b60460` measures each case with the package as it was at that commit, too. `--seconds`
is the least time for a case, which grows so that there are enough requests, in all and of each process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict, deque
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from airflow_provider_mediaops.http.auth import HeaderAuth
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.drivers import arun, run
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Call, Request
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.redis_server import PROGRAM, running_redis

try:
    from airflow_provider_mediaops.http.rate_limit.stores import store_at
except ImportError:  # `--against` an older package
    from airflow_provider_mediaops.http.rate_limit.limiter import (  # type: ignore[attr-defined, no-redef]
        store_at,
    )

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_mediaops.http.exchange import Wait

PROCESSES = (1, 4, 16)
RATES = (1, 3, 5, 50)
SECONDS = 5.0
# The requests of a case, and those of each of its processes, at the least.
REQUESTS = {"plain": 12, "jitter": 60, "late": 100}
TURNS = {"plain": 3.2, "jitter": 8.0, "late": 12.0}
REPLY_SECONDS, JITTER = 0.08, 0.3
LATE_EVERY, LATE_SECONDS = 50, 0.4
GOLDEN = 0.618034
LEAST_USED, LEAST_SHARE, MOST_SHARE = 0.97, 0.6, 1.4
RESERVATIONS = 2_000
MODULE = "tests.benchmarks.bench_rate_limit"
ROOT = Path(__file__).parents[2]


class Lateness:
    """
    Makes one in fifty late, by times that are spread evenly, so that a short case meets a fair part of them.

    :param start: where in the sequence to begin, from 0 to 1.
    """

    def __init__(self, start: float = 0.0) -> None:
        self._count = int(start * LATE_EVERY)
        self._share = start
        self._lock = threading.Lock()

    def seconds(self) -> float:
        """Return by how much the next is late."""
        with self._lock:
            self._count += 1
            if self._count % LATE_EVERY:
                return 0.0
            self._share = (self._share + GOLDEN) % 1
            return LATE_SECONDS * self._share


# The service.


class Service:
    """Admits so many requests of a key in any second; the key says how many, as in `5-late-anything`."""

    def __init__(self) -> None:
        self._admitted: defaultdict[str, deque[float]] = defaultdict(deque)
        self._log: defaultdict[str, list[tuple[float, str, bool]]] = defaultdict(list)
        self._late: defaultdict[str, Lateness] = defaultdict(Lateness)

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        """Answer a request."""
        if path.startswith("/log/"):
            return 200, json.dumps(self._log[path.removeprefix("/log/")]).encode()
        now, key = time.monotonic(), headers["authorization"]
        admitted = self._admitted[key]
        while admitted and admitted[0] <= now - 1.0:
            admitted.popleft()
        good = len(admitted) < int(key.partition("-")[0])
        if good:
            admitted.append(now)
        self._log[key].append((now, headers["x-process"], good))
        return (200, b"{}") if good else (429, b'{"message": "Limit Exceeded"}')

    def reply_seconds(self, key: str) -> float:
        """Return how long a reply takes."""
        if "-plain-" in key or not key:
            return 0.0
        late = self._late[key].seconds() if "-late-" in key else 0.0
        return REPLY_SECONDS * random.uniform(1 - JITTER, 1 + JITTER) + late  # noqa: S311 no secret is made of it

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        while head := (await _read_head(reader)).decode():
            first, *lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines if line)
            status, body = self.answer(first.split()[1], headers)
            await asyncio.sleep(self.reply_seconds(headers.get("authorization", "")))
            writer.write(b"HTTP/1.1 %d Status\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
        writer.close()


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def _serve_for_ever() -> None:
    server = await asyncio.start_server(Service().serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 for the process that started this one
    await server.serve_forever()


# A process that asks it.


def _ask(base: str, store: str, key: str, number: str, callers: str, *, on_loop: bool) -> None:
    """Ask as fast as the limiter lets us, from a word of the parent process on, until it kills this one."""
    rate = float(key.partition("-")[0])
    late = Lateness((int(number) + 1) * GOLDEN % 1) if "-late-" in key else None
    # What a process does once is done before the time counts; its first request is as cold as that of any task.
    run(limiter_for("stand-in", "unused", rate, store_at(store)).restore_quota(), _send_nothing)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    asking = [_Asking(base, store, key, number, late) for _ in range(int(callers))]
    if on_loop:
        asyncio.run(_ask_on_loop(asking))
    for each in asking[1:]:
        threading.Thread(target=each.ask_for_ever, daemon=True).start()
    asking[0].ask_for_ever()


async def _ask_on_loop(asking: list[_Asking]) -> None:
    await asyncio.gather(*(each.ask_on_loop() for each in asking))


@dataclass
class _Asking:
    """One caller, as a task is one."""

    base: str
    store: str
    key: str
    number: str
    late: Lateness | None

    def __post_init__(self) -> None:
        rate = float(self.key.partition("-")[0])
        self.client = Client(
            (self.base,),
            ErrorRules(service="stand-in"),
            auth=HeaderAuth.raw(self.key),
            retry=RetryPolicy(max_attempts=1_000),
            limiter=limiter_for("stand-in", self.key, rate, store_at(self.store)),
        )
        self.call = Call(Request("GET", "/book/1"), lambda response: response.status)

    def ask_for_ever(self) -> None:
        from airflow_provider_mediaops.http.sync_transport import SyncTransport

        try:
            from airflow_provider_mediaops.http.transport_settings import TransportSettings
        except ImportError:  # the package of a former commit
            from airflow_provider_mediaops.http.sync_transport import TransportSettings  # type: ignore[attr-defined]

        transport = SyncTransport(TransportSettings(headers={"X-Process": self.number}))
        while True:
            run(self.client.ask(self.call), transport.send, lambda wait: time.sleep(self._seconds(wait)))

    async def ask_on_loop(self) -> None:
        from airflow_provider_mediaops.http.async_transport import AsyncTransport
        from airflow_provider_mediaops.http.transport_settings import TransportSettings

        async def sleep(wait: Wait) -> None:
            await asyncio.sleep(self._seconds(wait))

        transport = AsyncTransport(TransportSettings(headers={"X-Process": self.number}))
        while True:
            await arun(self.client.ask(self.call), transport.send, sleep, in_thread=asyncio.to_thread)

    def _seconds(self, wait: Wait) -> float:
        return wait.seconds + (self.late.seconds() if self.late else 0.0)


# The measurement.


@dataclass(frozen=True)
class Figures:
    """
    What the service's log says of a case.

    :param requests: how many came.
    :param used: the share of the rate that was used.
    :param refused: how many were refused.
    :param least: the least share of a process, where 1 is fair.
    :param most: the largest share of a process.
    """

    requests: int
    used: float
    refused: int
    least: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether they are what the limiter promises."""
        fair = self.least >= LEAST_SHARE and self.most <= MOST_SHARE
        return not self.refused and self.used >= LEAST_USED and fair


def figures_of(log: Sequence[tuple[float, str, bool]], rate: int, processes: int) -> Figures:
    """Reckon with what the service has seen."""
    times = [moment for moment, _, _ in log]
    by_process = Counter(process for _, process, _ in log)
    fair = len(log) / processes
    shares = [by_process[str(number)] / fair for number in range(processes)]
    used = (len(log) - 1) / (times[-1] - times[0]) / rate
    return Figures(len(log), used, sum(not good for _, _, good in log), min(shares), max(shares))


@dataclass(frozen=True)
class Case:
    """A case to measure."""

    package: str
    folder: Path
    weather: str
    store: str
    address: str
    processes: int
    rate: int

    @property
    def key(self) -> str:
        """The key of its own."""
        return f"{self.rate}-{self.weather}-{self.package}-{self.store}-{self.processes}"

    @property
    def callers(self) -> int:
        """How many callers each process needs, so that replies that take long do not keep them from using the rate."""
        return 1 if self.weather == "plain" else math.ceil((1 + self.rate / 4) / self.processes)

    def measure(self, base: str, least: float, *, on_loop: bool) -> Figures:
        """Let the processes ask, and read the service's log."""
        how = ["--on-loop"] if on_loop else []
        command = [sys.executable, "-m", MODULE, *how, "--ask", base, self.address, self.key]
        with ExitStack() as stack:
            started = [
                stack.enter_context(_started([*command, str(number), str(self.callers)], self.folder))
                for number in range(self.processes)
            ]
            for process in started:
                assert process.stdout
                assert process.stdout.readline() == "ready\n"
            for process in started:
                assert process.stdin
                process.stdin.write("go\n")
                process.stdin.flush()
            requests_needed = max(REQUESTS[self.weather], TURNS[self.weather] * self.processes)
            # A second more for the cooldown before the first slot.
            time.sleep(1.0 + max(least, requests_needed / self.rate))
        log = requests.get(f"{base}/log/{self.key}", timeout=10).json()
        return figures_of(log, self.rate, self.processes)


@contextmanager
def _started(command: list[str], folder: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def cost_of(store: str) -> list[float]:
    """Measure single reservations in this process, in milliseconds."""
    limiter = limiter_for("cost", f"key {time.time()}", 1e6, store_at(store))
    taken = []
    for _ in range(RESERVATIONS):
        start = time.perf_counter()
        run(limiter.acquire(), _send_nothing, lambda wait: time.sleep(wait.seconds))
        taken.append((time.perf_counter() - start) * 1000)
    return sorted(taken[10:])


def _send_nothing(request: Request) -> Any:
    raise AssertionError(request)


def _stores(stack: ExitStack, folder: Path) -> dict[str, str]:
    stores = {"sqlite": f"sqlite:///{folder}/rates.db"}
    if PROGRAM:
        stores["redis"] = stack.enter_context(running_redis(folder)).url
    return stores


def _line(case: Case, figures: Figures) -> str:
    return (
        f"{case.package:9}{case.weather:8}{case.store:8}{case.processes:10d}{case.rate:6d}{figures.requests:10d}"
        f"{figures.used:9.1%}{figures.refused:9d}{figures.least:8.0%}{figures.most:8.0%}   "
        f"{'holds' if figures.holds else 'DOES NOT HOLD'}"
    )


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
        stores = {name: url for name, url in _stores(stack, folder).items() if name in arguments.stores}
        packages = {"now": ROOT}
        if arguments.against:
            packages["former"] = stack.enter_context(_package_at(arguments.against))
        service = stack.enter_context(_started([sys.executable, "-m", MODULE, "--serve"]))
        assert service.stdout
        base = f"http://127.0.0.1:{service.stdout.readline().strip()}"
        _print(
            f"{'package':9}{'weather':8}{'store':8}{'processes':>10}{'rate':>6}{'requests':>10}{'used':>9}"
            f"{'refused':>9}{'least':>8}{'most':>8}"
        )
        for weather, (store, address), processes, rate, (package, root) in product(
            arguments.weather, stores.items(), arguments.processes, arguments.rates, packages.items()
        ):
            case = Case(package, root, weather, store, address, processes, rate)
            figures = case.measure(base, arguments.seconds, on_loop=arguments.on_loop)
            hold.append(figures.holds or package != "now")
            _print(_line(case, figures))
        for name, store in stores.items():
            cost = cost_of(store)
            _print(
                f"a reservation in {name}: median {statistics.median(cost):.3f} ms, "
                f"99th percentile {cost[len(cost) * 99 // 100]:.3f} ms"
            )
    return all(hold)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Measure and print, or be one of the processes that are needed for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the least time of a case")
    parser.add_argument("--stores", nargs="+", default=["sqlite", "redis"])
    parser.add_argument("--processes", nargs="+", type=int, default=PROCESSES)
    parser.add_argument("--rates", nargs="+", type=int, default=RATES)
    parser.add_argument("--weather", nargs="+", choices=list(REQUESTS), default=["plain"])
    parser.add_argument("--against", metavar="COMMIT", help="measure the package of a commit, too")
    parser.add_argument("--on-loop", action="store_true", help="ask from event loops, as a triggerer does")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ask", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(_serve_for_ever())
    elif arguments.ask:
        _ask(*arguments.ask, on_loop=arguments.on_loop)
    elif not measure_all(arguments):
        return os.EX_SOFTWARE
    return 0


if __name__ == "__main__":
    sys.exit(main())
