"""
Attempts of a task that are killed: each is a fork of one process that has everything imported already.

Run as a program, this carries out an export until an attempt comes to its end, and prints what happened as JSON. The
first attempts get SIGKILL, each at a random moment, so that it may be hit in the middle of anything.
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
# One of these gets so many pages on at most, and then lives for so many seconds at most.
_MOST_PAGES = 7
_A_MOMENT = 0.01


def repeat_until_done(attempt: Callable[[], Any], kills: int, let_live: Callable[[], None]) -> dict[str, Any]:
    """
    Fork one attempt after the other.

    :param attempt: what a child does; it ends well, or it raises.
    :param kills: how many attempts are killed at most, after which one is let live.
    :param let_live: comes back when it is time to kill one of these.
    :returns: how many attempts were killed, and how the last one ended.
    """
    for killed in range(kills):
        child = _fork(attempt)
        let_live()
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
    chance = random.Random(int(seed))  # noqa: S311 nobody is to be kept from guessing it
    _connect(practice)
    page = Path(folder, "practice", "page.jsonl")
    export(page, summary)
    _connect(base)
    repeat_until_done(lambda: export(Path(folder, "whole", name), summary), 0, lambda: None)
    undisturbed = json.loads(summary.read_text())
    records = Path(folder, f".{name}.records")
    ended = repeat_until_done(
        lambda: export(Path(folder, name), summary),
        int(kills),
        lambda: _grow(records, page.stat().st_size * chance.randrange(_MOST_PAGES), chance.uniform(0.0, _A_MOMENT)),
    )
    output.write(json.dumps({**ended, "undisturbed": undisturbed, "summary": json.loads(summary.read_text())}))


def _grow(records: Path, by: int, and_then: float) -> None:
    """Wait until an attempt has staged some bytes, or is done, and a moment longer: however fast the machine is."""
    deadline = time.monotonic() + _SECONDS
    enough = _size(records) + by
    while by and _size(records) < enough and time.monotonic() < deadline and not _is_published(records):
        time.sleep(0.0005)
    time.sleep(and_then)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _is_published(records: Path) -> bool:
    return records.with_name(records.name[1:].removesuffix(".records")).exists()


def _connect(base: str) -> None:
    connection = {"conn_type": "mediaops_video", "host": base, "password": "token", "extra": {"max_attempts": 1}}
    os.environ["AIRFLOW_CONN_MEDIAOPS_VIDEO_DEFAULT"] = json.dumps(connection)


if __name__ == "__main__":
    main()
