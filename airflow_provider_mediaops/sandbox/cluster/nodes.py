"""The search cluster's three nodes: who they are, how busy they are, and which of them a request means."""

from __future__ import annotations

import base64
import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_mediaops.sandbox.cluster.query import flag
from airflow_provider_mediaops.sandbox.cluster.wildcard import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_provider_mediaops.sandbox.clock import Clock

HOST = "127.0.0.1"
_QUARTER = 0.25


def _opaque_id(text: str) -> str:
    """Return an id in the form of the cluster's: 22 letters, digits, dashes and underscores."""
    return base64.urlsafe_b64encode(hashlib.blake2b(text.encode(), digest_size=16).digest()).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Node:
    """
    A node of the cluster.

    :param name: its name.
    :param port: the port on which nodes talk to each other.
    :param roles: what it does.
    :param zone: its attribute of that name.
    """

    name: str
    port: int
    roles: tuple[str, ...]
    zone: str

    @property
    def id(self) -> str:
        """Its id, which outlives restarts."""
        return _opaque_id(self.name)

    @property
    def address(self) -> str:
        """The address at which other nodes reach it."""
        return f"{HOST}:{self.port}"

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes that its configuration sets."""
        return {"zone": self.zone}

    @property
    def ephemeral_id(self) -> str:
        """Its id until it is started again."""
        return _opaque_id(f"{self.name} this time")

    @property
    def role_letters(self) -> str:
        """Its roles as the head of a hot-threads section shows them."""
        return "".join(_ROLE_LETTERS[role] for role in self.roles)

    def is_meant_by(self, selector: str) -> bool:
        """
        Return whether a part of a node list names this node, other than by a role.

        :param selector: an id, a name, an address or ``attribute:value``; but for the id, ``*`` stands for anything.
        """
        if selector == self.id or matches(selector, self.name) or matches(selector, HOST):
            return True
        attribute, colon, value = selector.partition(":")
        return bool(colon) and any(
            matches(attribute, name) and matches(value, own) for name, own in self.attributes.items()
        )


#: The role of a node that may manage the cluster, which the products call by different names.
MANAGER = "manager"
_ROLE_LETTERS = {"data": "d", "ingest": "i", MANAGER: "m", "remote_cluster_client": "r"}
NODES = (
    Node("sandbox-1", 9301, tuple(_ROLE_LETTERS), zone="north"),
    Node("sandbox-2", 9302, tuple(_ROLE_LETTERS), zone="south"),
    Node("sandbox-3", 9303, tuple(_ROLE_LETTERS), zone="south"),
)
_BY_NAME = {node.name: (node,) for node in NODES}
_ALL = frozenset(_BY_NAME)
# The node that answers, which is the manager as well.
_FIRST = frozenset({NODES[0].name})


def select(node_list: str | None, *, manager_words: Mapping[str, str]) -> list[Node]:
    """
    Find the nodes that a request means.

    The parts of the list count from left to right: ``role:false`` takes nodes away from those named before it.

    :param node_list: the comma-separated list of its path; None means all.
    :param manager_words: the words by which a manager is named in ``word:true``, each with the role that it means.
    :returns: each node once; nothing if no node is meant.
    :raises RefusedError: what follows a role is neither ``true`` nor ``false``.
    """
    special = {"_all": _ALL, "_local": _FIRST, **{f"_{word}": _FIRST for word in manager_words}}
    roles = {role: role for role in _ROLE_LETTERS if role != MANAGER} | dict(manager_words)
    chosen: set[str] = set()
    for selector in [part for part in (node_list or "").split(",") if part] or ["_all"]:
        word, colon, value = selector.partition(":")
        if colon and word in roles:
            holders = {node.name for node in NODES if roles[word] in node.roles}
            chosen = chosen | holders if flag(value) else chosen - holders
        else:
            chosen |= special.get(selector) or {node.name for node in NODES if node.is_meant_by(selector)}
    return [node for node in NODES if node.name in chosen]


def _steady(base: float, swing: float) -> Callable[[float], float]:
    return lambda turns: base + swing * math.sin(2 * math.pi * turns)


def _spiking(turns: float) -> float:
    """Rise above 90 for a good quarter of each turn, first 0.36 turns after the start."""
    return min(97.0, max(11.0, 15 + 120 * math.sin(2 * math.pi * (turns - _QUARTER))))


# The sum over a curve has so many parts: a search of 20 seconds is a millisecond off at most.
_STEPS = 200
_CURVES = {"sandbox-1": _steady(24, 7), "sandbox-2": _spiking, "sandbox-3": _steady(6, 3)}


class CpuPin(BaseModel):
    """CPU figures that stay as they are set."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str | None = Field(default=None, description="The node's name; without one, all nodes.")
    percent: int = Field(ge=-1, le=100, description="CPU of the machine; -1 means that it is not known.")
    process_percent: int | None = Field(
        default=None, ge=-1, le=100, description="CPU of the node's own process; nine tenths of `percent` if not given."
    )


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """
    How busy a node is.

    :param machine: CPU of the machine in percent; -1 if it is not known.
    :param process: CPU of the node's process in percent; -1 if it is not known.
    """

    machine: float
    process: float


class Cluster:
    """
    The nodes' CPU over time: a function of the clock, unless it is pinned.

    :param clock: what time it is; the first cycle begins now.
    :param cycle: seconds from one spike of ``sandbox-2`` to the next.
    """

    def __init__(self, clock: Clock, *, cycle: float) -> None:
        self._clock = clock
        self._cycle = cycle
        self._start = clock.now()
        self._pins: dict[str, CpuPin] = {}

    @property
    def pins(self) -> list[CpuPin]:
        """The figures that are pinned, one entry a node."""
        return list(self._pins.values())

    def pin(self, pin: CpuPin) -> bool:
        """
        Keep a node's CPU at fixed figures.

        :param pin: which node, and which figures.
        :returns: whether there is such a node.
        """
        nodes = NODES if pin.node is None else _BY_NAME.get(pin.node, ())
        for node in nodes:
            self._pins[node.name] = pin.model_copy(update={"node": node.name})
        return bool(nodes)

    def unpin(self) -> None:
        """Let CPU rise and fall again."""
        self._pins.clear()

    def load(self, node: Node) -> NodeLoad:
        """
        Return how busy a node is now.

        :param node: one of :data:`NODES`.
        :returns: its CPU figures.
        """
        pin = self._pins.get(node.name)
        if pin is None:
            machine = self._machine_at(node, self._clock.now())
            return NodeLoad(machine, machine * 0.9)
        process = pin.process_percent
        if process is None:
            return NodeLoad(pin.percent, pin.percent * 0.9 if pin.percent >= 0 else -1)
        return NodeLoad(pin.percent, process)

    def busy_seconds(self, node: Node, since: float) -> float:
        """
        Return the CPU that a thread used which runs whenever the node works, in seconds.

        :param node: one of :data:`NODES`.
        :param since: when it began, in seconds since 1970.
        """
        seconds = self._clock.now() - since
        if (pin := self._pins.get(node.name)) is not None:
            return seconds * pin.percent / 100
        moments = (since + seconds * (step + 0.5) / _STEPS for step in range(_STEPS))
        return seconds * sum(self._machine_at(node, moment) for moment in moments) / _STEPS / 100

    def _machine_at(self, node: Node, moment: float) -> float:
        return _CURVES[node.name]((moment - self._start) / self._cycle)
