"""A process that asks the stand-in service as fast as the limiter lets it."""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.auth import HeaderAuth
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.drivers import arun, run
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Call, Request
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.rate_limit.store_by_address import store_at
from airflow_provider_mediaops.http.request_threads import LONG_JOBS
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.http.transport_settings import TransportSettings
from tests.benchmarks.rate_limit.weather import GOLDEN, Lateness, rate_of, weather_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Wait
    from airflow_provider_mediaops.http.transport import Transport


def ask(base: str, store: str, key: str, number: str, callers: int, *, on_loop: bool) -> None:
    """Send requests from the time when the parent process writes a line, until it kills this one."""
    late = Lateness((int(number) + 1) * GOLDEN % 1) if weather_of(key) == "late" else None
    asking = [_Asking(base, store, key, number, late) for _ in range(callers)]
    # What a process does once is done before the time counts; its first request is as cold as that of any task.
    run(limiter_for("stand-in", "unused", rate_of(key), store_at(store)).restore_quota(), send_nothing)
    if on_loop:
        asyncio.run(_ask_on_loop(asking))
    transports = [each.transport() for each in asking]
    _wait_for_the_word()
    for each, transport in zip(asking[1:], transports[1:], strict=True):
        threading.Thread(target=each.ask_for_ever, args=[transport], daemon=True).start()
    asking[0].ask_for_ever(transports[0])


async def _ask_on_loop(asking: list[_Asking]) -> None:
    transports = [each.transport() for each in asking]
    _wait_for_the_word()
    await asyncio.gather(*(each.ask_on_loop(transport) for each, transport in zip(asking, transports, strict=True)))


def _wait_for_the_word() -> None:
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()


@dataclass
class _Asking:
    """One caller, as a task is one."""

    base: str
    store: str
    key: str
    number: str
    late: Lateness | None

    def __post_init__(self) -> None:
        self.client = Client(
            (self.base,),
            ErrorRules(service="stand-in"),
            auth=HeaderAuth.raw(self.key),
            retry=RetryPolicy(max_attempts=1_000),
            limiter=limiter_for("stand-in", self.key, float(rate_of(self.key)), store_at(self.store)),
        )
        self.call = Call(Request("GET", "/book/1"), lambda response: response.status)
        self.settings = TransportSettings(headers={"X-Process": self.number})

    def transport(self) -> Transport:
        from airflow_provider_mediaops.http.transport import Transport

        return Transport(self.settings)

    def ask_for_ever(self, transport: Transport) -> None:
        while True:
            run(self.client.ask(self.call), transport.send, lambda wait: time.sleep(self._seconds(wait)))

    async def ask_on_loop(self, transport: Transport) -> None:
        async def sleep(wait: Wait) -> None:
            await asyncio.sleep(self._seconds(wait))

        while True:
            send = partial(LONG_JOBS.send, transport, self.number)
            await arun(self.client.ask(self.call), send, sleep, in_thread=asyncio.to_thread)

    def _seconds(self, wait: Wait) -> float:
        return wait.seconds + (self.late.seconds() if self.late else 0.0)


def send_nothing(request: Request) -> Any:
    """Stand for the transport of a conversation that sends nothing."""
    raise AssertionError(request)


def main() -> None:
    """Send requests, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("base", "store", "key", "number"):
        parser.add_argument(name)
    parser.add_argument("callers", type=int)
    parser.add_argument("--on-loop", action="store_true")
    arguments = parser.parse_args()
    ask(**vars(arguments))


if __name__ == "__main__":
    main()
