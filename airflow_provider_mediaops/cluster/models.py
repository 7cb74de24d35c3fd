"""Parse the CPU of nodes out of ``/_nodes/stats``, leniently: versions differ in the figures that they give."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.cluster.plain_values import list_of, mapping_of, number_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

# Selectors that only the cluster resolves.
_SPECIAL = ("_all", "_local", "_master", "_cluster_manager")


@dataclass(frozen=True, slots=True)
class NodeCpu:
    """
    The CPU of one node.

    :param node_id: the id, which stays with the node's data.
    :param name: its name.
    :param host: host name or address.
    :param ip: address, with a port on most versions.
    :param roles: such as ``data`` and ``ingest``.
    :param percent: CPU in percent; None if the node does not report it, which is not the same as zero.
    :param source: the origin of ``percent``: ``os`` for the whole machine or container, else ``process`` for the node's
        own process; None if neither is known.
    :param load_average: the load average of the machine by period (``1m``, ``5m``, ``15m``), if it is given.
    """

    node_id: str
    name: str | None = None
    host: str | None = None
    ip: str | None = None
    roles: tuple[str, ...] = ()
    percent: float | None = None
    source: Literal["os", "process"] | None = None
    load_average: Mapping[str, float] | None = None

    @property
    def label(self) -> str:
        """The name of the node, or its id if it has none."""
        return self.name or self.node_id

    def is_meant_by(self, selector: str) -> bool:
        """
        Return whether one entry of a list of nodes selects this node.

        :param selector: an id, name, host or address, which may hold wildcards. An entry that only the cluster can
            resolve (``_local``, ``attribute:value``) counts as selecting every node of the reply.
        """
        names = [name for name in (self.name, self.host, self.ip) if name]
        return (
            selector in (self.node_id, *names)
            or selector in _SPECIAL
            or ":" in selector
            or any(fnmatchcase(name, selector) for name in (*names, (self.ip or "").rpartition(":")[0]))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every field by its name, as plain values."""
        return {**asdict(self), "roles": list(self.roles)}


@dataclass(frozen=True, slots=True)
class NodeStats:
    """
    The statistics of several nodes.

    :param nodes: the nodes that answered.
    :param failures: a sentence for each node that did not.
    :param cluster_name: the cluster's name.
    """

    nodes: tuple[NodeCpu, ...]
    failures: tuple[str, ...] = ()
    cluster_name: str | None = None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> NodeStats:
        """
        Parse the reply of ``/_nodes/stats``.

        :param body: the JSON object.
        :returns: its nodes and failures, without the values of an unexpected type.
        """
        nodes = mapping_of(body.get("nodes"))
        failures = mapping_of(body.get("_nodes")).get("failures")
        return cls(
            nodes=tuple(_read_node(node_id, mapping_of(node)) for node_id, node in nodes.items()),
            failures=tuple(_read_failure(mapping_of(failure)) for failure in list_of(failures)),
            cluster_name=text_of(body.get("cluster_name")),
        )

    def unknown(self, selectors: tuple[str, ...] | None) -> list[str]:
        """
        Return the entries of a list of nodes that select none of these nodes.

        :param selectors: the entries; None for all nodes.
        """
        # Most entries are whole names, and a thousand triggers call this for each reading of hundreds of nodes.
        names = {name for node in self.nodes for name in (node.node_id, node.name, node.host, node.ip)}
        rest = [entry for entry in selectors or () if entry not in names]
        return [entry for entry in rest if not any(node.is_meant_by(entry) for node in self.nodes)]


def _read_node(node_id: str, node: Mapping[str, Any]) -> NodeCpu:
    machine = mapping_of(mapping_of(node.get("os")).get("cpu"))
    own = mapping_of(mapping_of(node.get("process")).get("cpu"))
    percent = _percent(machine.get("percent"))
    source: Literal["os", "process"] = "os"
    if percent is None:
        percent, source = _percent(own.get("percent")), "process"
    loads = {period: number_of(load) for period, load in mapping_of(machine.get("load_average")).items()}
    return NodeCpu(
        node_id=node_id,
        name=text_of(node.get("name")),
        host=text_of(node.get("host")),
        ip=text_of(node.get("ip")),
        roles=tuple(role for role in list_of(node.get("roles")) if isinstance(role, str)),
        percent=percent,
        source=None if percent is None else source,
        load_average={period: load for period, load in loads.items() if load is not None} or None,
    )


def _read_failure(failure: Mapping[str, Any]) -> str:
    cause = mapping_of(failure.get("caused_by"))
    reason = text_of(cause.get("reason")) or text_of(failure.get("reason")) or "no reason given"
    node = text_of(failure.get("node_id"))
    return f"node {node}: {reason}" if node else reason


def _percent(value: object) -> float | None:
    # -1 means that the node cannot measure it.
    number = number_of(value)
    return number if number is not None and number >= 0 else None
