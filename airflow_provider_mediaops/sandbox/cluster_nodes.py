"""The search cluster's three nodes: who they are, how busy they are, and which of them a request means."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.clock import Clock

HOST = "127.0.0.1"
ROLES = {"cluster_manager": "m", "data": "d", "ingest": "i", "remote_cluster_client": "r"}
_QUARTER = 0.25


def _opaque_id(text: str) -> str:
    """Return an id in the form of the cluster's: 22 letters, digits, dashes and underscores."""
    return base64.urlsafe_b64encode(hashlib.blake2b(text.encode(), digest_size=16).digest()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster, which has all roles."""

    name: str
    # On which nodes talk to each other.
    port: int
    zone: str
    # The CPU around which it rises and falls a little.
    calm_percent: float = 0.0
    spikes: bool = False

    @property
    def id(self) -> str:
        """Its id, which outlives restarts."""
        return _opaque_id(self.name)

    @property
    def ephemeral_id(self) -> str:
        """Its id until it is started again."""
        return _opaque_id(f"{self.name} this time")

    @property
    def address(self) -> str:
        """The address at which other nodes reach it."""
        return f"{HOST}:{self.port}"

    @property
    def attributes(self) -> dict[str, str]:
        """Its attributes."""
        return {"shard_indexing_pressure_enabled": "true", "zone": self.zone}

    def is_meant_by(self, selector: str) -> bool:
        """Return whether a part of a node list names this node: by id, name, address or ``attribute:value``."""
        if selector == self.id or matches(selector, self.name) or matches(selector, HOST):
            return True
        attribute, _, value = selector.partition(":")
        return any(matches(attribute, name) and matches(value, own) for name, own in self.attributes.items())


NODES = (
    Node("sandbox-1", 9301, zone="north", calm_percent=24),
    Node("sandbox-2", 9302, zone="south", spikes=True),
    Node("sandbox-3", 9303, zone="south", calm_percent=6),
)
_ROLE_WORDS = {*ROLES, "master"}
# The node that answers, which is the manager as well.
_OF_THE_FIRST = {"_local", "_master", "_cluster_manager"}


def matches(pattern: str, name: str) -> bool:
    """Return whether a pattern, in which ``*`` stands for any characters, means a name."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def select(node_list: str) -> list[Node]:
    """Find the nodes that a list means; its parts count from left to right, and ``role:false`` takes nodes away."""
    chosen: set[Node] = set()
    for selector in node_list.split(","):
        word, _, value = selector.partition(":")
        if word in _ROLE_WORDS and value:
            chosen = {*NODES} if value == "true" else set()
        elif selector == "_all":
            chosen = {*NODES}
        elif selector in _OF_THE_FIRST:
            chosen.add(NODES[0])
        else:
            chosen |= {node for node in NODES if node.is_meant_by(selector)}
    return [node for node in NODES if node in chosen]


# The sum over a curve has so many parts: a search of 20 seconds is a millisecond off at most.
_STEPS = 200


class CpuPin(BaseModel):
    """CPU figures that stay as they are set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str | None = Field(default=None, description="The node's name; without one, all nodes.")
    percent: int = Field(ge=-1, le=100, description="CPU of the machine; -1 means that it is not known.")


class Cluster:
    """The nodes' CPU over time: a function of the clock, unless it is pinned. A spike of sandbox-2 begins a cycle."""

    def __init__(self, clock: Clock, *, cycle: float) -> None:
        self._clock = clock
        self._cycle = cycle
        self._start = clock.now()
        #: The figures that are pinned, by the names of the nodes.
        self.pins: dict[str, CpuPin] = {}

    def pin(self, pin: CpuPin) -> bool:
        """Keep the CPU of a node at fixed figures, and return whether there is such a node."""
        nodes = [node for node in NODES if pin.node in (None, node.name)]
        for node in nodes:
            self.pins[node.name] = pin.model_copy(update={"node": node.name})
        return bool(nodes)

    def load(self, node: Node) -> float:
        """Return how busy the machine of a node is now, in percent; -1 if it is not known."""
        pin = self.pins.get(node.name)
        return pin.percent if pin else self._machine_at(node, self._clock.now())

    def busy_seconds(self, node: Node, since: float) -> float:
        """Return the CPU, in seconds, that a thread has used since then which runs whenever the node works."""
        seconds = self._clock.now() - since
        if (pin := self.pins.get(node.name)) is not None:
            return seconds * pin.percent / 100
        moments = (since + seconds * (step + 0.5) / _STEPS for step in range(_STEPS))
        return seconds * sum(self._machine_at(node, moment) for moment in moments) / _STEPS / 100

    def _machine_at(self, node: Node, moment: float) -> float:
        turns = (moment - self._start) / self._cycle
        if node.spikes:
            # Above 90 for a good quarter of each turn, first 0.36 turns after the start.
            return min(97.0, max(11.0, 15 + 120 * math.sin(2 * math.pi * (turns - _QUARTER))))
        return node.calm_percent + 0.3 * node.calm_percent * math.sin(2 * math.pi * turns)
