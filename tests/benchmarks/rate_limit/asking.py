"""Processes that ask the stand-in service as fast as the limiter of one key lets them."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.http.auth import HeaderAuth
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Call, Request
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.http.runner import run
from airflow_provider_mediaops.http.settings import TransportSettings
from tests.benchmarks.rate_limit.weather import GOLDEN, LATE_EVERY, STALL_EVERY, Lateness, rate_of, weather_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Response, Wait

# Where the names are, and where packages to compare with have them.
_TRANSPORTS = (("transport", "Transport"), ("sync_transport", "SyncTransport"))
_BACK_ENDS = (("rate_limit.addresses", "backend_at"), ("rate_limit.store_by_address", "store_at"))


def _named(places: tuple[tuple[str, str], ...]) -> Any:
    for module, name in places:
        if find_spec(f"airflow_provider_mediaops.http.{module}"):
            return getattr(importlib.import_module(f"airflow_provider_mediaops.http.{module}"), name)
    raise ImportError(str(places))


Transport, backend_at = _named(_TRANSPORTS), _named(_BACK_ENDS)
if find_spec("redis"):
    # Once, and not in each of the processes.
    importlib.import_module("redis")


class Caller:
    """
    One caller, as a task is one.

    :param base: the service's address.
    :param backend: the address of the back end.
    :param key: the key, which names the weather.
    :param number: the number of the process.
    """

    def __init__(self, base: str, backend: str, key: str, number: int) -> None:
        start = (number + 1) * GOLDEN % 1
        weather = weather_of(key)
        self._late = Lateness(LATE_EVERY, start) if weather == "late" else None
        self._stalled = Lateness(STALL_EVERY, start) if weather == "stall" else None
        self._transport = Transport(TransportSettings(headers={"X-Process": str(number)}))
        self._client = Client(
            (base,),
            ErrorRules(service="stand-in"),
            auth=HeaderAuth.raw(key),
            retry=RetryPolicy(max_attempts=1_000),
            limiter=limiter_for("stand-in", key, float(rate_of(key)), backend_at(backend)),
        )
        self._call = Call(Request("GET", "/book/1"), lambda response: response.status)

    def ask_for_ever(self) -> None:
        """Ask until the process is killed."""
        while True:
            run(self._client.ask(self._call), self._send, self._sleep)

    def _send(self, request: Request) -> Response:
        if self._stalled:
            time.sleep(self._stalled.seconds())
        response: Response = self._transport.send(request)
        return response

    def _sleep(self, wait: Wait) -> None:
        time.sleep(wait.seconds + (self._late.seconds() if self._late else 0.0))


def _ask(base: str, backend: str, key: str, number: int, callers: int) -> None:
    asking = [Caller(base, backend, key, number) for _ in range(callers)]
    for caller in asking[1:]:
        threading.Thread(target=caller.ask_for_ever, daemon=True).start()
    asking[0].ask_for_ever()


def main() -> None:
    """Fork the processes when the process that started this one writes a line; it kills them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("base", "backend", "key"):
        parser.add_argument(name)
    parser.add_argument("processes", type=int)
    parser.add_argument("callers", type=int)
    arguments = parser.parse_args()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    number = next((number for number in range(1, arguments.processes) if not os.fork()), 0)
    _ask(arguments.base, arguments.backend, arguments.key, number, arguments.callers)


if __name__ == "__main__":
    main()
