"""
Record hot-threads reports of real clusters under load: ``python -m tests.cluster.record FOLDER``.

With ``--running-tasks``, a capture with the tasks that ran meanwhile: its text and its JSON file.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from tests.cluster.kinds import KINDS
from tests.cluster.known_load import BUSY_NODE, aggregation, expressions, known_load
from tests.cluster.load import running_load
from tests.cluster.nodes import running_cluster
from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from tests.cluster.known_load import KnownLoad
    from tests.cluster.nodes import Cluster

REPORTS = {
    "cpu": {},
    "cpu-with-idle-threads": {"threads": "9", "snapshots": "3", "ignore_idle_threads": "false"},
    "wait": {"type": "wait", "threads": "2"},
    "block": {"type": "block", "threads": "2"},
}
"""The reports to record, with the parameters that each is asked for with."""


def main() -> None:
    """Start each kind without users, keep it busy, and write its replies byte for byte."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--running-tasks", action="store_true")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    for kind in KINDS:
        if arguments.running_tasks and kind.has_known_load:
            with running_cluster(kind) as cluster, known_load(cluster) as load:
                capture = _capture(cluster, load)
                for name in ("txt", "json"):
                    content = capture.content(name)
                    # The names of the indices are made up, and hard to read.
                    for index, readable in ((load.index, b"orders-2026"), (load.written, b"ingest-target")):
                        content = content.replace(index.encode(), readable)
                    (folder / f"{kind}.{name}").write_bytes(content)
        if arguments.running_tasks or kind.secured:
            continue
        with running_cluster(kind) as cluster, running_load(cluster):
            version = cluster.get("/").json()["version"]["number"]
            for name, parameters in REPORTS.items():
                (folder / f"{kind.product}-{version}-{name}.txt").write_bytes(_report(cluster, parameters))


def _report(cluster: Cluster, parameters: dict[str, str]) -> bytes:
    """Ask until each node has something to report (a node may have been at rest for that half second)."""

    def read() -> bytes:
        reply = cluster.get("/_nodes/hot_threads", **parameters)
        reply.raise_for_status()
        return reply.content

    def is_full(text: bytes) -> bool:
        return all(b" usage by thread '" in node for node in text.split(b"::: ")[1:])

    return wait_for("a hot thread on each node", read, is_full, within=120)


def _capture(cluster: Cluster, load: KnownLoad) -> Capture:
    """Capture the busy node while a search of seconds, short ones and bulk requests are under way."""
    os.environ["AIRFLOW_CONN_TEST_CLUSTER"] = cluster.connection()
    copies, clauses = load.copies(3), load.clauses(0.1)
    names = ["report:nightly-margin", "app:autocomplete", "logstash:ingest-1"]
    works = [
        load.search(names[0], lambda: aggregation(copies)),
        load.search(names[1], lambda: expressions(clauses)),
        load.indexing(names[2]),
    ]
    with load.doing(*works), SearchClusterHook("test_cluster") as hook:
        load.wait_until_listed(names)
        return hook.capture(BUSY_NODE, running_tasks=True, threads=5)


if __name__ == "__main__":
    main()
