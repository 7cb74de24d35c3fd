"""Record hot-threads reports of real clusters under load: ``python -m tests.cluster.record FOLDER``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster.kinds import KINDS
from tests.cluster.load import running_load
from tests.cluster.nodes import running_cluster
from tests.cluster.waiting import wait_for

if TYPE_CHECKING:
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
    folder: Path = parser.parse_args().folder
    for kind in KINDS:
        if kind.secured:
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


if __name__ == "__main__":
    main()
