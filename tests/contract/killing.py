"""
Attempts of a task that are killed: each is a fork of one process that has everything imported already.

Run as a program, this carries out an export until an attempt comes to its end, and prints what happened as JSON. The
first attempts get SIGKILL, each after a random time, so that it may be hit in the middle of anything.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_SECONDS = 60.0


def repeat_until_done(attempt: Callable[[], Any], kills: int, longest: float, chance: random.Random) -> dict[str, Any]:
    """
    Fork one attempt after the other.

    :param attempt: what a child does; it ends well, or it raises.
    :param kills: how many attempts are killed at most, after which one is let live.
    :param longest: the most seconds that one of these lives.
    :param chance: where chance comes from.
    :returns: how many attempts were killed, and how the last one ended.
    """
    for killed in range(kills):
        child = _fork(attempt)
        time.sleep(chance.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return {"kills": killed, "status": os.waitstatus_to_exitcode(status)}
    child = _fork(attempt)
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return {"kills": kills, "status": os.waitstatus_to_exitcode(status)}
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return {"kills": kills, "status": f"no end after {_SECONDS} seconds"}


def _fork(attempt: Callable[[], Any]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            attempt()
            status = 0
        finally:
            # Nothing of what the parent has open or registered is this child's to close.
            os._exit(status)
    return child


def export(destination: Path, summary: Path) -> None:
    """Do what a task does, and leave what it returns in a file."""
    from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator

    instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="export", map_index=-1, max_tries=99)
    operator = ExportSubscriptionsOperator(task_id="export", destination=str(destination), mine=True)
    summary.write_text(json.dumps(operator.execute({"ti": instance})))  # type: ignore[typeddict-item]


def main() -> None:
    """Carry out an export: a server for practice, the server, the folder, the file's name, the most kills, a seed."""
    practice, base, folder, name, kills, seed = sys.argv[1:]
    # Airflow prints its log.
    output, sys.stdout = sys.stdout, sys.stderr
    summary = Path(folder, "summary.json")

    def seconds(server: str, file: Path) -> float:
        _connect(server)
        started = time.monotonic()
        repeat_until_done(lambda: export(file, summary), 0, 0.0, chance)
        return time.monotonic() - started

    chance = random.Random(int(seed))  # noqa: S311 nobody is to be kept from guessing it
    _connect(practice)
    export(Path(folder, "practice", name), summary)
    least, whole = seconds(practice, Path(folder, "practice", f"2{name}")), seconds(base, Path(folder, "whole", name))
    undisturbed = json.loads(summary.read_text())
    # However fast the machine is: on average an attempt lives long enough for a fortieth of the export.
    longest = 2 * (least + (whole - least) / 40)
    ended = repeat_until_done(lambda: export(Path(folder, name), summary), int(kills), longest, chance)
    output.write(json.dumps({**ended, "undisturbed": undisturbed, "summary": json.loads(summary.read_text())}))


def _connect(base: str) -> None:
    connection = {"conn_type": "mediaops_video", "host": base, "password": "token", "extra": {"max_attempts": 1}}
    os.environ["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"] = json.dumps(connection)


if __name__ == "__main__":
    main()
