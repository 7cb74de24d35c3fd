"""Which nodes of a reading a list of nodes means, found here as the cluster would find it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.models import NodeCpu, NodeStats

#: The entries of a list of nodes; None for all nodes.
Selection = tuple[str, ...] | None

# Addresses, which not every version and service shows as it compares them; with patterns of them.
_ADDRESS = re.compile(r"[0-9.*]+")


def is_plain(selection: Selection) -> bool:
    """
    Return whether a list of nodes has only names, ids and patterns of names.

    The rest only the cluster can resolve: ``_local`` and its kin, ``attribute:value``, roles (which may also take nodes
    out of the list) and addresses.
    """
    return all(
        not entry.startswith("_") and ":" not in entry and (entry == "*" or not _ADDRESS.fullmatch(entry))
        for entry in selection or ()
    )


def narrowed(stats: NodeStats, selection: Selection) -> NodeStats | None:
    """
    Narrow a reading of all nodes to those that a plain list means, as the cluster would; None if it has to be asked.

    That is so if an entry means none of the nodes that answered, or may mean one that did not. An entry is first an id;
    if no node has that id, a name or a host, in which ``*`` stands for any characters. Nothing else is special, and
    case counts: ``DiscoveryNodes.resolveNodes`` and ``Regex.simpleMatch`` of Elasticsearch and OpenSearch do the same.
    """
    if selection is None:
        return stats
    if stats.failed and any("*" in entry for entry in selection):
        return None
    ids = {node.node_id for node in stats.nodes}
    chosen: set[str] = set()
    for entry in selection:
        meant = {entry} if entry in ids else {node.node_id for node in stats.nodes if _is_named(node, entry)}
        if not meant:
            return None
        chosen |= meant
    return replace(stats, nodes=tuple(node for node in stats.nodes if node.node_id in chosen), failures=(), failed=0)


def _is_named(node: NodeCpu, entry: str) -> bool:
    names = [name for name in (node.name, node.host) if name]
    if "*" not in entry:
        return entry in names
    return entry == "*" or any(_pattern(entry).fullmatch(name) for name in names)


@lru_cache(maxsize=256)
def _pattern(entry: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, entry.split("*"))), re.DOTALL)
