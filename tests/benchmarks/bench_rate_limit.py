"""
One rate for many processes: how much of a key's rate they use together, how fairly, and whether the service refuses.

Each case has a key of its own at a stand-in service, which admits so many requests in any second, strictly, and refuses
the rest; as many processes as the case says ask it as fast as the limiter lets them. The service's own log is what
counts. Run by `make benchmarks`, or `python -m tests.benchmarks.bench_rate_limit`; `--seconds` is the least time for a
case, which grows so that there are twelve requests, and three of each process, or more. On a machine that is busy with
other things, the stand-in service and its clock are late themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict, deque
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from airflow_provider_mediaops.http.auth import HeaderAuth
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Call, Request, arun, run
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for, store_at
from airflow_provider_mediaops.http.rate_limit.schedule import RestoreQuota
from airflow_provider_mediaops.http.retry import RetryPolicy
from tests.redis_server import PROGRAM, running_redis

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROCESSES = (1, 4, 16)
RATES = (1, 3, 5, 50)
SECONDS = 5.0
REQUESTS = 12
TURNS = 3.2
LEAST_USED, LEAST_SHARE, MOST_SHARE = 0.97, 0.6, 1.4
RESERVATIONS = 2_000
MODULE = "tests.benchmarks.bench_rate_limit"
ROOT = Path(__file__).parents[2]


# The service.


class Service:
    """Admits so many requests of a key in any second; the key says how many, as in `5-anything`."""

    def __init__(self) -> None:
        self._admitted: defaultdict[str, deque[float]] = defaultdict(deque)
        self._log: defaultdict[str, list[tuple[float, str, bool]]] = defaultdict(list)

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

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        while head := (await _read_head(reader)).decode():
            first, *lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines if line)
            status, body = self.answer(first.split()[1], headers)
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


def _ask(base: str, store: str, key: str, number: str, *, on_loop: bool) -> None:
    """Ask as fast as the limiter lets us, from a word of the parent process on, until it kills this one."""
    from airflow_provider_mediaops.http.async_transport import AsyncTransport
    from airflow_provider_mediaops.http.sync_transport import SyncTransport
    from airflow_provider_mediaops.http.transport_settings import TransportSettings

    rate = float(key.partition("-")[0])
    client = Client(
        (base,),
        ErrorRules(service="stand-in"),
        auth=HeaderAuth.raw(key),
        retry=RetryPolicy(max_attempts=1_000),
        limiter=limiter_for("stand-in", key, rate, store_at(store)),
    )
    # What a process does once is done before the time counts; its first request is as cold as that of any task.
    store_at(store).apply("unused", RestoreQuota(), 0.0)
    settings = TransportSettings(headers={"X-Process": number})
    call = Call(Request("GET", "/book/1"), lambda response: response.status)
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    if on_loop:

        async def ask_on_the_loop() -> None:
            transport = AsyncTransport(settings)
            while True:
                await arun(client.ask(call), transport.send)

        asyncio.run(ask_on_the_loop())
    transport = SyncTransport(settings)
    while True:
        run(client.ask(call), transport.send)


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


def measure(base: str, store: str, rate: int, processes: int, least: float, *, on_loop: bool) -> Figures:
    """Let some processes ask, and read the log."""
    key = f"{rate}-{store.partition(':')[0]}-{processes}-{'async' if on_loop else 'sync'}"
    how = ["--on-loop"] if on_loop else []
    command = [sys.executable, "-m", MODULE, *how, "--ask", base, store, key]
    with ExitStack() as stack:
        started = [stack.enter_context(_started([*command, str(number)])) for number in range(processes)]
        for process in started:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        # A second more for the quiet before the first slot.
        time.sleep(1.0 + max(least, REQUESTS / rate, TURNS * processes / rate))
    log = requests.get(f"{base}/log/{key}", timeout=10).json()
    return figures_of(log, rate, processes)


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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


def _line(name: str, rate: int, processes: int, figures: Figures) -> str:
    return (
        f"{name:12}{processes:10d}{rate:8d}{figures.requests:10d}{figures.used:9.1%}{figures.refused:9d}"
        f"{figures.least:8.0%}{figures.most:8.0%}   {'holds' if figures.holds else 'DOES NOT HOLD'}"
    )


def measure_all(arguments: argparse.Namespace) -> bool:
    """Measure every case, print a line each, and tell whether all of them hold."""
    hold = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stores = {name: url for name, url in _stores(stack, folder).items() if name in arguments.stores}
        service = stack.enter_context(_started([sys.executable, "-m", MODULE, "--serve"]))
        assert service.stdout
        base = f"http://127.0.0.1:{service.stdout.readline().strip()}"
        _print(
            f"{'store':12}{'processes':>10}{'rate':>8}{'requests':>10}{'used':>9}{'refused':>9}{'least':>8}{'most':>8}"
        )
        for name, store in stores.items():
            for processes in arguments.processes:
                for rate in arguments.rates:
                    figures = measure(base, store, rate, processes, arguments.seconds, on_loop=arguments.on_loop)
                    hold.append(figures.holds)
                    _print(_line(name, rate, processes, figures))
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
    parser.add_argument("--on-loop", action="store_true", help="ask from event loops, as a triggerer does")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--ask", nargs=4, help=argparse.SUPPRESS)
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
