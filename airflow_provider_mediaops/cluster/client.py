"""The client of a search cluster, which measures the CPU of nodes as its connection says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from airflow_provider_mediaops.cluster.api import BETWEEN_SECONDS, CpuCall
from airflow_provider_mediaops.http.client import Client
from airflow_provider_mediaops.http.exchange import Wait

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.cpu_measure import CpuMeasure
    from airflow_provider_mediaops.cluster.models import NodeStats
    from airflow_provider_mediaops.http.exchange import Call, CallFlow

T = TypeVar("T")

_BY_COUNTERS = ("auto", "cgroup")


@dataclass(slots=True)
class ClusterClient(Client):
    """Makes call flows of single calls to a search cluster."""

    cpu_measure: CpuMeasure = "auto"  # of the nodes

    def ask(self, call: Call[T]) -> CallFlow[T]:
        """
        Send a call; see :meth:`~airflow_provider_mediaops.http.client.Client.ask`.

        The CPU of containers with a limit is asked for twice, a second apart: the servers only count what they use.
        """
        # A class with slots is made anew, so that super() alone would mean the first one.
        return cast("CallFlow[T]", self._cpu(call)) if isinstance(call, CpuCall) else Client.ask(self, call)

    def _cpu(self, call: CpuCall) -> CallFlow[NodeStats]:
        stats = yield from Client.ask(self, call.measured(self.cpu_measure))
        if self.cpu_measure not in _BY_COUNTERS or not stats.containers:
            return stats
        yield Wait(BETWEEN_SECONDS)
        return (yield from Client.ask(self, call.measured(self.cpu_measure, stats.containers)))
