"""Processes that ask the stand-in service as fast as the limiter of one key lets them."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from importlib.util import find_spec

from airflow_provider_mediaops.http.auth import Auth
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.errors import ErrorRules
from airflow_provider_mediaops.http.exchange import Call, Request
from airflow_provider_mediaops.http.rate_limit.backends import backend_at
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.retry import RetryPolicy
from airflow_provider_mediaops.http.runner import run
from airflow_provider_mediaops.http.settings import TransportSettings
from airflow_provider_mediaops.http.transport import Transport
from tests.benchmarks.rate_limit.service import rate_of

if find_spec("redis"):
    # Once, and not in each of the processes.
    importlib.import_module("redis")


def _ask_for_ever(base: str, backend: str, key: str, number: int) -> None:
    """Ask as a task does, until the process is killed."""
    transport = Transport(TransportSettings(headers={"X-Process": str(number)}))
    client = Client(
        (base,),
        ErrorRules(service="stand-in"),
        auth=Auth(key, (key,)),
        retry=RetryPolicy(max_attempts=1_000),
        limiter=limiter_for("stand-in", key, float(rate_of(key)), backend_at(backend)),
    )
    call = Call(Request("GET", "/book/1"), lambda response: response.status)
    while True:
        run(client.ask(call), transport.send, lambda wait: time.sleep(wait.seconds))


def main() -> None:
    """Fork the processes when the process that started this one writes a line; it kills them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("base", "backend", "key"):
        parser.add_argument(name)
    parser.add_argument("processes", type=int)
    arguments = parser.parse_args()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    number = next((number for number in range(1, arguments.processes) if not os.fork()), 0)
    _ask_for_ever(arguments.base, arguments.backend, arguments.key, number)


if __name__ == "__main__":
    main()
