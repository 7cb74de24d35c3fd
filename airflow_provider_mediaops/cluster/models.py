"""
Parse the CPU of nodes out of ``/_nodes/stats``, leniently: versions differ in the figures that they give.

A node's CPU is measured in the ways that its version and its container allow, one of which counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from airflow_provider_mediaops.cluster.plain_values import (
    figure_at,
    list_of,
    mapping_at,
    mapping_of,
    number_of,
    text_of,
    value_at,
)
from airflow_provider_mediaops.progress import counted

CpuSource = Literal["os", "process", "cgroup"]
"""The machine as Java sees it; the node's own process; its container against the limit (the quota of its cgroup)."""

CpuMeasure = Literal["auto", "os", "process", "cgroup"]
"""The measure that a connection asks for. ``auto``: whichever is the highest."""

_NAMES: dict[CpuSource, str] = {"os": "its machine", "process": "its process", "cgroup": "its container's limit"}
_HIGHEST = 100.0
_NS_PER_MS = 1e6
# Selectors of all nodes, and those that only the cluster resolves.
_SPECIAL = ("*", "_all", "_local", "_master", "_cluster_manager")


@dataclass(frozen=True, slots=True)
class NodeCpu:
    """The CPU of one node."""

    node_id: str  #: the id, which stays with the node's data
    name: str | None = None  #: its name
    host: str | None = None  #: host name or address
    ip: str | None = None  #: address, with a port on most versions
    roles: tuple[str, ...] = ()  #: such as ``data`` and ``ingest``
    percent: float | None = None  #: CPU in percent; None if the node does not report it, which is not the same as zero
    #: the measure of ``percent``: ``os`` for the machine, ``process`` for the node's own process, ``cgroup`` for its
    #: container against the limit; None if none is known
    source: CpuSource | None = None
    #: the load average of the machine by period (``1m``, ``5m``, ``15m``), which nodes give since Elasticsearch 5
    load_average: Mapping[str, float] | None = None

    @property
    def label(self) -> str:
        """The name of the node, or its id if it has none."""
        return self.name or self.node_id

    @property
    def measured_in(self) -> str:
        """The measure of ``percent`` in words; empty if none is known."""
        return _NAMES[self.source] if self.source else ""

    def is_meant_by(self, selector: str) -> bool:
        """
        Return whether one entry of a list of nodes selects this node.

        :param selector: an id; or a name, host or address, in which ``*`` stands for any characters. An entry that only
            the cluster can resolve (``_local``, ``attribute:value``) counts as selecting every node of the reply.
        """
        if selector in self.names or _is_of_cluster(selector):
            return True
        # Nothing else is special, and case counts, as in Regex.simpleMatch of Elasticsearch and OpenSearch.
        pattern = ".*".join(map(re.escape, selector.split("*")))
        return "*" in selector and any(re.fullmatch(pattern, name, re.DOTALL) for name in self.names - {self.node_id})

    @property
    def names(self) -> frozenset[str]:
        """The id, the name, the host and the address, with its port and without, as far as they are known."""
        known = (self.node_id, self.name, self.host, self.ip, (self.ip or "").rpartition(":")[0])
        return frozenset(name for name in known if name)


@dataclass(frozen=True, slots=True)
class NodeStats:
    """The statistics of several nodes."""

    nodes: tuple[NodeCpu, ...]  #: the nodes that answered
    failures: tuple[str, ...] = ()  #: a sentence for each node that did not, of those whose failure is described
    cluster_name: str | None = None  #: the cluster's name
    failed: int = 0  #: the number of nodes that did not answer
    measure: CpuMeasure = "auto"  #: the measure that was asked for
    figures: Mapping[str, CpuFigures] = field(default_factory=dict)  #: all that the nodes say of their CPU, by node id

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> NodeStats:
        """Parse the reply of ``/_nodes/stats``, without the values of an unexpected type; the measure is ``auto``."""
        nodes = {node_id: mapping_of(node) for node_id, node in mapping_at(body, "nodes").items()}
        failures = tuple(_failure(failure) for failure in list_of(value_at(body, "_nodes", "failures")))
        figures = {node_id: CpuFigures.read(node) for node_id, node in nodes.items()}
        return cls(
            nodes=tuple(_node(node_id, node, figures[node_id]) for node_id, node in nodes.items()),
            failures=failures,
            cluster_name=text_of(body.get("cluster_name")),
            # The list may be cut, or not be there.
            failed=max(int(figure_at(body, "_nodes", "failed") or 0), len(failures)),
            figures=figures,
        )

    def measured(self, measure: CpuMeasure, before: NodeStats | None = None) -> NodeStats:
        """Return the same by a measure; without an earlier reading, the use of containers is unknown."""
        if measure == self.measure and before is None:
            return self
        earlier, nodes = before.figures if before else {}, []
        for node in self.nodes:
            percent, source = self.figures[node.node_id].by(measure, earlier.get(node.node_id))
            nodes.append(replace(node, percent=percent, source=source))
        return replace(self, nodes=tuple(nodes), measure=measure)

    @property
    def reasons(self) -> str:
        """Why nodes did not answer, in words."""
        return "; ".join(self.failures) or "the reply does not say why"

    @property
    def gap(self) -> str:
        """A sentence with the number of nodes that did not answer, and why, without a full stop; empty if all did."""
        return f"{counted(self.failed, 'node')} did not give the statistics: {self.reasons}" if self.failed else ""

    def unknown(self, selectors: tuple[str, ...] | None) -> list[str]:
        """Return the entries of a list of nodes that select none of these nodes; None stands for all nodes."""
        # Most entries are whole names, and a thousand triggers call this for each reading of hundreds of nodes.
        names = {name for node in self.nodes for name in (node.node_id, node.name, node.host, node.ip)}
        rest = [entry for entry in selectors or () if entry not in names]
        return [entry for entry in rest if not any(node.is_meant_by(entry) for node in self.nodes)]

    def narrowed(self, selectors: tuple[str, ...] | None) -> NodeStats:
        """
        Narrow the statistics of all nodes to those that a list means.

        A node that failed still counts, unless each entry is a name of one that answered: it may be meant. None stands
        for all nodes.
        """
        if selectors is None:
            return self
        # As above.
        entries = set(selectors)
        others = [entry for entry in entries if "*" in entry or _is_of_cluster(entry)]
        nodes = tuple(
            node for node in self.nodes if not entries.isdisjoint(node.names) or any(map(node.is_meant_by, others))
        )
        if self.unknown(selectors) or any("*" in entry for entry in selectors):
            return replace(self, nodes=nodes)
        return replace(self, nodes=nodes, failures=(), failed=0)


@dataclass(frozen=True, slots=True)
class CpuFigures:
    """All that a node says of its CPU: in percent, and for a container with a limit the time that it has used."""

    os: float | None
    process: float | None
    at_ms: float = 0.0  # when the time was counted, by the node's clock
    used_ms: float = 0.0  # by all processes of the container since its start
    cores: float = 0.0  # the limit: quota by period; 0 without one, and if the node does not give the time

    @classmethod
    def read(cls, node: Mapping[str, Any]) -> CpuFigures:
        """Read the figures of a node."""
        machine, own, cpu = mapping_at(node, "os"), mapping_at(node, "process", "cpu"), mapping_at(node, "os", "cpu")
        # Elasticsearch from 5 on and OpenSearch; 2; and 1.
        of_machine = (cpu.get("percent"), machine.get("cpu_percent"), cpu.get("usage"))
        percent = next((percent for value in of_machine if (percent := _percent(value)) is not None), None)
        # Elasticsearch 1 counts 100 % for each core of the process, and does not say how many there are.
        process = None if "usage" in cpu or "sys_in_millis" in own else _percent(own.get("percent"))
        at_ms, used_ns = figure_at(machine, "timestamp"), figure_at(machine, "cgroup", "cpuacct", "usage_nanos")
        quota = figure_at(machine, "cgroup", "cpu", "cfs_quota_micros")
        period = figure_at(machine, "cgroup", "cpu", "cfs_period_micros")
        if at_ms is None or used_ns is None or not quota or not period:
            return cls(percent, process)
        used_ms = used_ns / _NS_PER_MS
        # Before 8.10, Elasticsearch gave microseconds under this name where the cgroup is of version 2. The process is
        # in the container, so it cannot have used more than that.
        if used_ms < (figure_at(own, "total_in_millis") or 0.0) / 2:
            used_ms *= 1000
        return cls(percent, process, at_ms, used_ms, quota / period)

    def by(self, wanted: CpuMeasure, before: CpuFigures | None = None) -> tuple[float | None, CpuSource | None]:
        """Return the CPU in percent by a measure, and which one that is; twice None if it is not known."""
        figures: dict[CpuSource, float | None] = {
            "os": self.os,
            "process": self.process,
            "cgroup": self._percent_since(before),
        }
        known = {name: percent for name, percent in figures.items() if percent is not None and wanted in ("auto", name)}
        source = max(known, key=lambda name: known[name], default=None)
        return (None, None) if source is None else (known[source], source)

    def _percent_since(self, before: CpuFigures | None) -> float | None:
        """
        Return the used share of the limit, in percent, at most 100, which a burst may exceed.

        None for other counters: the node was restarted, its limit was changed, or the servers have not measured again.
        """
        if before is None or before.cores != self.cores:
            return None
        passed_ms, used_ms = self.at_ms - before.at_ms, self.used_ms - before.used_ms
        available_ms = passed_ms * self.cores
        if available_ms <= 0 or used_ms < 0:
            return None
        return min(_HIGHEST, round(100 * used_ms / available_ms, 1))


def _percent(value: object) -> float | None:
    # -1 means that the node cannot measure it.
    number = number_of(value)
    return number if number is not None and 0 <= number <= _HIGHEST else None


def _is_of_cluster(entry: str) -> bool:
    """Return whether an entry of a list of nodes selects all of them, or only the cluster can resolve it."""
    return entry in _SPECIAL or ":" in entry


def _node(node_id: str, node: Mapping[str, Any], figures: CpuFigures) -> NodeCpu:
    percent, source = figures.by("auto")
    loads = {period: number_of(load) for period, load in mapping_at(node, "os", "cpu", "load_average").items()}
    return NodeCpu(
        node_id=node_id,
        name=text_of(node.get("name")),
        host=text_of(node.get("host")),
        ip=text_of(node.get("ip")),
        roles=tuple(role for role in list_of(node.get("roles")) if isinstance(role, str)),
        percent=percent,
        source=source,
        load_average={period: load for period, load in loads.items() if load is not None} or None,
    )


def _failure(failure: object) -> str:
    reason = text_of(value_at(failure, "caused_by", "reason")) or text_of(value_at(failure, "reason"))
    node = text_of(value_at(failure, "node_id"))
    return f"{f'node {node}: ' if node else ''}{reason or 'no reason given'}"
