"""A search cluster at the other end of the transport, whose CPU, failures and latency a test sets as it goes on."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from airflow_provider_mediaops.http import transport
from tests.unit.search_cluster import connection, node_id, replied, stats
from tests.unit.virtual_time import send_on_the_loop

if TYPE_CHECKING:
    import pytest

    from airflow_provider_mediaops.http.exchange import Request, Response, TransportError
    from tests.unit.conftest import Supervisor

CONN_ID = "cluster_1"
HOST = "https://cluster.example"


@dataclass
class ScriptedCluster:
    """
    What the cluster says, and what it was asked.

    :param cpu: the CPU by the node's name; None for a node that does not tell.
    :param trouble: what comes instead of statistics, while there is any.
    :param troubled_host: the address where it comes; None for wherever the cluster is asked.
    :param latency: seconds until the reply.
    """

    cpu: dict[str, float | None] = field(default_factory=lambda: {"node-1": 5.0, "node-2": 5.0})
    trouble: Response | TransportError | Exception | None = None
    troubled_host: str | None = None
    latency: float = 0.0
    asked: list[tuple[float, str]] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    opened: int = 0
    closed: int = 0
    most_open: int = 0

    @property
    def times(self) -> list[float]:
        """When it was asked, as the event loop counts."""
        return [at for at, _ in self.asked]

    @property
    def selections(self) -> list[str]:
        """The nodes that it was asked for; empty for all."""
        return [nodes for _, nodes in self.asked]

    async def answer(self, request: Request) -> Response:
        nodes = request.path.removeprefix("/_nodes").removesuffix("/stats/os,process").strip("/")
        self.asked.append((asyncio.get_running_loop().time(), unquote(nodes)))
        self.hosts.append(request.base)
        await asyncio.sleep(self.latency)
        if self.trouble is None or self.troubled_host not in (None, request.base):
            return replied(stats(self._of(unquote(nodes))))
        if isinstance(self.trouble, Exception):
            raise self.trouble
        return self.trouble

    def _of(self, nodes: str) -> dict[str, float | None]:
        if not nodes or nodes == "*":
            return dict(self.cpu)
        special = {"_local": next(iter(self.cpu))}
        named = {special.get(entry, entry) for entry in nodes.split(",")}
        return {name: percent for name, percent in self.cpu.items() if named & {name, node_id(name)}}


def install(cluster: ScriptedCluster, patch: pytest.MonkeyPatch, supervisor: Supervisor) -> None:
    """Put a cluster where the connection leads."""

    class Transport:
        def __init__(self, *settings: object) -> None:
            cluster.opened += 1
            cluster.most_open = max(cluster.most_open, cluster.opened - cluster.closed)

        async def send(self, request: Request) -> Response:
            return await cluster.answer(request)

        def close(self) -> None:
            cluster.closed += 1

    patch.setattr(transport, "Transport", Transport)
    send_on_the_loop(patch)
    supervisor.connect(CONN_ID, connection(HOST))
