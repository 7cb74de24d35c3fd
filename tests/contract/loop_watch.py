"""
Run one trigger in a fresh process, and record what blocks its event loop: imports, files, certificates, sleeps.

Run by the tests: `python -m tests.contract.loop_watch CLASSPATH < ARGUMENTS`. It prints one line of JSON: the blocking
steps, each with the place in the provider's code; the event; and the modules that the run has loaded.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import os
import sqlite3
import ssl
import sys
import time
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import airflow
from airflow.sdk import BaseHook, Connection
from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

SECONDS = 100
PROVIDER = "airflow_provider_mediaops"
# What the interpreter announces of its own accord. A name that is looked up on the loop announces itself as well.
_AUDITED = ("open", "import", "os.", "shutil.", "subprocess.", "socket.getaddrinfo", "sqlite3.connect", "time.sleep")
# Modules that Airflow imports itself when it is first asked for a connection.
_OF_AIRFLOW = ("airflow.sdk.", "/airflow/sdk/")
# These announce nothing.
_SILENT = {
    time: ("sleep",),
    ssl.SSLContext: ("load_verify_locations", "load_default_certs", "set_default_verify_paths", "load_cert_chain"),
    Path: ("stat",),
    sqlite3: ("connect",),
}


class Watch:
    """Records each blocking step that the provider's code takes on an event loop, from `begin` on."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self._is_on = False
        sys.addaudithook(self.heard)
        for owner, names in _SILENT.items():
            for name in names:
                setattr(owner, name, self._announced(getattr(owner, name)))

    def begin(self) -> None:
        self._is_on = True

    def end(self) -> None:
        self._is_on = False

    @property
    def is_on_loop(self) -> bool:
        """Whether this thread runs an event loop that is watched."""
        # Public for event loops; the documented function raises where none runs.
        return self._is_on and asyncio._get_running_loop() is not None  # noqa: SLF001

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note an event that Python announces, if it may block."""
        if event.startswith(_AUDITED) and self.is_on_loop:
            what = str(arguments[0]) if arguments else ""
            if not any(name in what for name in _OF_AIRFLOW):
                self._note(f"{event} {what}")

    def record(self, step: str, frames: Sequence[FrameType]) -> None:
        """
        Keep a step.

        :param step: the step, with its place in the provider's code.
        :param frames: the frames of the provider's code, the innermost first.
        """
        self.steps.append(step)

    def _announced(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def announce(*arguments: Any, **others: Any) -> Any:
            if self.is_on_loop:
                self._note(function.__qualname__)
            return function(*arguments, **others)

        return announce

    def _note(self, step: str) -> None:
        frame, frames = inspect.currentframe(), []
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith(PROVIDER):
                frames.append(frame)
            frame = frame.f_back
        if frames:
            places = [f"{each.f_globals['__name__'].removeprefix(PROVIDER)}:{each.f_lineno}" for each in frames[:3]]
            self.record(f"{step} at {' < '.join(places)}", frames)


async def run(watch: Watch, kind: type[Any], arguments: dict[str, Any]) -> Any:
    """Run the trigger to its first event."""
    trigger = kind(**arguments)
    watch.begin()
    try:
        events = trigger.run()
        event = await asyncio.wait_for(events.__anext__(), SECONDS)
        await events.aclose()
    finally:
        watch.end()
    return event.payload


def read_connections_from_environment() -> None:
    """Let triggers read their connections from the environment, without Airflow's secrets backends and threads."""
    BaseHook.aget_connection = staticmethod(_connection_of_the_environment)  # type: ignore[method-assign]


async def _connection_of_the_environment(conn_id: str, hook: object = None) -> Connection:  # noqa: ARG001
    return Connection.from_json(os.environ[f"AIRFLOW_CONN_{conn_id.upper()}"], conn_id=conn_id)


def main() -> None:
    """Run, and print."""
    classpath = sys.argv[1]
    if Version(airflow.__version__) < Version("3.2"):
        # It asks the triggerer's supervisor for connections, and there is none here.
        read_connections_from_environment()
    # All that a triggerer has loaded before it runs its first trigger.
    import_module("airflow.jobs.triggerer_job_runner")
    logging.disable(logging.CRITICAL)
    module, _, name = classpath.rpartition(".")
    kind = getattr(import_module(module), name)
    before = set(sys.modules)
    watch = Watch()
    payload = asyncio.run(run(watch, kind, json.load(sys.stdin)))
    loaded = sorted(set(sys.modules) - before)
    sys.stdout.write(f"\n{json.dumps({'steps': watch.steps, 'payload': payload, 'loaded': loaded})}\n")


if __name__ == "__main__":
    main()
