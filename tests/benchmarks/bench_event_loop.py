"""
The longest step on the event loop that each trigger takes, from a fresh process to its event, beside plain httpx.

Each runs in a process of its own, after all that a triggerer has loaded, against the sandbox in another process. A step
is what the event loop runs without a break: one callback, or one piece of a coroutine between two awaits. Its time on
the processor is that of the loop's thread, so that a busy machine and other threads do not count; its time on the clock
contains them. Importing the trigger's class, which Airflow does on the loop, is a step as well. Run by `make
benchmarks`, or `python -m tests.benchmarks.bench_event_loop`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.fresh_process import environment, last_line_of
from tests.benchmarks.results import Limit, Row, record

ROUNDS = 5
SECONDS = 120
LONGEST_MS = 10.0
PEER = "plain httpx"


class Step(NamedTuple):
    """
    A step of the event loop.

    :param cpu: milliseconds on the processor.
    :param elapsed: milliseconds on the clock.
    """

    cpu: float
    elapsed: float
    name: str


def watch(steps: list[Step]) -> None:
    """Record each step that any event loop of this process takes from now on."""
    run = asyncio.events.Handle._run  # noqa: SLF001 there is no public place

    def timed(handle: asyncio.Handle) -> None:
        # The name is looked up before: afterwards a task may be at its next step.
        name = _name_of(handle)
        elapsed, cpu = time.perf_counter(), time.thread_time()
        run(handle)
        steps.append(Step((time.thread_time() - cpu) * 1000, (time.perf_counter() - elapsed) * 1000, name))

    asyncio.events.Handle._run = timed  # type: ignore[method-assign,assignment] # noqa: SLF001


def _name_of(handle: Any) -> str:
    callback = handle._callback  # noqa: SLF001 as above
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return getattr(callback, "__qualname__", repr(callback))
    # The innermost coroutine that waits: the step goes on from there.
    coroutine: Any = task.get_coro()
    place = ""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is not None:
            place = f"{Path(frame.f_code.co_filename).stem}:{frame.f_lineno} {frame.f_code.co_name}"
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
    return place


async def run_trigger(classpath: str, arguments: dict[str, Any]) -> None:
    """Run a trigger to its first event, as a triggerer does."""
    module, _, name = classpath.rpartition(".")
    kind = getattr(import_module(module), name)
    await asyncio.sleep(0)
    events = kind(**arguments).run()
    event = await asyncio.wait_for(events.__anext__(), SECONDS)
    await events.aclose()
    if event.payload.get("status", "done") != "done":
        raise RuntimeError(f"{classpath} ended with {event.payload}.")


async def run_httpx(address: str) -> None:
    """Make one request, as a trigger of many a provider does."""
    import httpx

    await asyncio.sleep(0)
    async with httpx.AsyncClient() as client:
        await client.get(address)


def run_here(spec: dict[str, Any]) -> None:
    """Run one trigger in this process; print its steps."""
    import_module("airflow.jobs.triggerer_job_runner")
    logging.disable(logging.CRITICAL)
    steps: list[Step] = []
    watch(steps)
    asyncio.run(run_httpx(spec["address"]) if "address" in spec else run_trigger(**spec))
    sys.stdout.write(f"\n{json.dumps(sorted(steps, reverse=True)[:5])}\n")


def measure(spec: dict[str, Any], env: dict[str, str]) -> list[Step]:
    """Run one trigger in a fresh process; return its longest steps, the longest first."""
    line = last_line_of(["-m", "tests.benchmarks.bench_event_loop", json.dumps(spec)], env, seconds=2 * SECONDS)
    return [Step(*step) for step in json.loads(line)]


def specs(address: str, folder: Path) -> dict[str, dict[str, Any]]:
    """Return what is measured, by its name."""
    from airflow_provider_mediaops.triggers.cluster import HighCpuTrigger
    from tests.contract.tasks import DEFERRING, SENSORS, name_of
    from tests.contract.waiting_triggers import made

    triggers = {name_of(task): made(task, folder) for task in (*SENSORS, *DEFERRING)}
    triggers["AssetWatcher"] = HighCpuTrigger(threshold=1, sustained_for=0)
    found: dict[str, dict[str, Any]] = {PEER: {"address": address}}
    for name, trigger in triggers.items():
        classpath, arguments = trigger.serialize()
        found[name] = {"classpath": classpath, "arguments": arguments}
    return found


def main() -> None:
    """Measure and print; or, in a process of its own, run one trigger."""
    if sys.argv[1:]:
        run_here(json.loads(sys.argv[1]))
        return
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from airflow_provider_mediaops.sandbox.state import Settings

    figures: dict[str, list[list[Step]]] = {}
    with tempfile.TemporaryDirectory() as folder, SandboxServer(settings=Settings(subscriptions=120)) as server:
        env = environment(folder, **server.connections(), _AIRFLOW_PROCESS_CONTEXT="client")
        for round_number in range(ROUNDS + 1):
            for name, spec in specs(server.url, Path(folder, str(round_number))).items():
                steps = measure(spec, env)
                # The first round writes the byte code.
                if round_number:
                    figures.setdefault(name, []).append(steps)
    longest = {name: statistics.median(max(steps).cpu for steps in rounds) for name, rounds in figures.items()}
    peer = longest.pop(PEER)
    limit = Limit("at most", LONGEST_MS)
    record(
        "event_loop", [Row(f"longest step of {name}", "ms", ours, PEER, peer, limit) for name, ours in longest.items()]
    )


if __name__ == "__main__":
    main()
