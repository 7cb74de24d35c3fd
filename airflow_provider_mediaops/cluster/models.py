"""Parse the CPU of nodes out of ``/_nodes/stats``, leniently: versions differ in the figures that they give."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.cpu_measure import CgroupUse, measured
from airflow_provider_mediaops.cluster.plain_values import list_of, mapping_at, mapping_of, number_of, text_of, value_at

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.cpu_measure import CpuMeasure, Measure

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
    source: Measure | None = None
    #: the load average of the machine by period (``1m``, ``5m``, ``15m``), which nodes give since Elasticsearch 5
    load_average: Mapping[str, float] | None = None

    @property
    def label(self) -> str:
        """The name of the node, or its id if it has none."""
        return self.name or self.node_id

    def is_meant_by(self, selector: str) -> bool:
        """
        Return whether one entry of a list of nodes selects this node.

        :param selector: an id; or a name, host or address, in which ``*`` stands for any characters. An entry that only
            the cluster can resolve (``_local``, ``attribute:value``) counts as selecting every node of the reply.
        """
        if selector in (self.node_id, *self.names) or selector in _SPECIAL or ":" in selector:
            return True
        # Nothing else is special, and case counts, as in Regex.simpleMatch of Elasticsearch and OpenSearch.
        pattern = ".*".join(map(re.escape, selector.split("*")))
        return "*" in selector and any(re.fullmatch(pattern, name, re.DOTALL) for name in self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The name, the host and the address, with its port and without, as far as they are known."""
        known = (self.name, self.host, self.ip, (self.ip or "").rpartition(":")[0])
        return tuple(name for name in known if name)

    def to_dict(self) -> dict[str, Any]:
        """Return every field by its name, as plain values."""
        return {**asdict(self), "roles": list(self.roles)}


@dataclass(frozen=True, slots=True)
class NodeStats:
    """The statistics of several nodes."""

    nodes: tuple[NodeCpu, ...]  #: the nodes that answered
    failures: tuple[str, ...] = ()  #: a sentence for each node that did not, of those whose failure is described
    cluster_name: str | None = None  #: the cluster's name
    failed: int = 0  #: the number of nodes that did not answer
    measure: CpuMeasure = "auto"  #: the measure that was asked for
    #: the counters of the nodes in containers with a limit, by node id
    containers: Mapping[str, CgroupUse] = field(default_factory=dict)

    @classmethod
    def read(
        cls, body: Mapping[str, Any], measure: CpuMeasure = "auto", before: Mapping[str, CgroupUse] | None = None
    ) -> NodeStats:
        """
        Parse the reply of ``/_nodes/stats``, without the values of an unexpected type.

        Without the counters of an earlier reply, ``before``, the use of containers is unknown.
        """
        nodes = {node_id: mapping_of(node) for node_id, node in mapping_at(body, "nodes").items()}
        counts = mapping_at(body, "_nodes")
        failures = tuple(_read_failure(mapping_of(failure)) for failure in list_of(counts.get("failures")))
        uses = {node_id: CgroupUse.read(node) for node_id, node in nodes.items()}
        return cls(
            nodes=tuple(
                _read_node(node_id, node, measured(node, measure, (before or {}).get(node_id)))
                for node_id, node in nodes.items()
            ),
            failures=failures,
            cluster_name=text_of(body.get("cluster_name")),
            # The list may be cut, or not be there.
            failed=max(int(number_of(counts.get("failed")) or 0), len(failures)),
            measure=measure,
            containers={node_id: use for node_id, use in uses.items() if use is not None},
        )

    @property
    def gap(self) -> str:
        """A sentence with the number of nodes that did not answer, and why, without a full stop; empty if all did."""
        if not self.failed:
            return ""
        nodes = "1 node" if self.failed == 1 else f"{self.failed:,} nodes"
        return f"{nodes} did not give the statistics: {self.reasons}"

    @property
    def reasons(self) -> str:
        """Why nodes did not answer, in words."""
        return "; ".join(self.failures) or "the reply does not say why"

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
        # Most entries are whole names, and a thousand triggers narrow each reading of hundreds of nodes.
        entries = set(selectors)
        others = [entry for entry in entries if "*" in entry or ":" in entry or entry in _SPECIAL]
        nodes = tuple(
            node
            for node in self.nodes
            if not entries.isdisjoint((node.node_id, *node.names)) or any(map(node.is_meant_by, others))
        )
        if self.unknown(selectors) or any("*" in entry for entry in selectors):
            return replace(self, nodes=nodes)
        return replace(self, nodes=nodes, failures=(), failed=0)


def _read_node(node_id: str, node: Mapping[str, Any], cpu: tuple[float | None, Measure | None]) -> NodeCpu:
    percent, source = cpu
    return NodeCpu(
        node_id=node_id,
        name=text_of(node.get("name")),
        host=text_of(node.get("host")),
        ip=text_of(node.get("ip")),
        roles=tuple(role for role in list_of(node.get("roles")) if isinstance(role, str)),
        percent=percent,
        source=source,
        load_average=_read_loads(node),
    )


def _read_loads(node: Mapping[str, Any]) -> dict[str, float] | None:
    loads = {period: number_of(load) for period, load in mapping_at(node, "os", "cpu", "load_average").items()}
    return {period: load for period, load in loads.items() if load is not None} or None


def _read_failure(failure: Mapping[str, Any]) -> str:
    reason = text_of(value_at(failure, "caused_by", "reason")) or text_of(failure.get("reason")) or "no reason given"
    node = text_of(failure.get("node_id"))
    return f"node {node}: {reason}" if node else reason
