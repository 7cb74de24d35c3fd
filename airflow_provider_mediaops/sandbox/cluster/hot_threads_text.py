"""The text of a hot-threads report, in the form of OpenSearch 2."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_mediaops.sandbox.cluster.nodes import HOST, ROLES
from airflow_provider_mediaops.sandbox.cluster.threads import BUSY, IDLE, Stack, Thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mediaops.sandbox.cluster.nodes import Node

_NANOS = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "micros": 1_000,
    "nanos": 1,
}
#: A time as the cluster takes it: a whole number and a unit, or zeros.
Time = Annotated[str, Field(pattern=r"^(\d+(nanos|micros|ms|s|m|h|d)|0+)$")]
_PositiveTime = Annotated[str, Field(pattern=r"^0*[1-9]\d*(nanos|micros|ms|s|m|h|d)$")]


class Sampling(BaseModel):
    """The seven parameters of hot threads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ignore_idle_threads: Literal["true", "false"] = Field(default="true", description="Leave idle threads out.")
    interval: _PositiveTime = Field(default="500ms", description="Time between the samplings.")
    snapshots: int = Field(default=10, ge=1, description="Samples of each thread's stack.")
    threads: int = Field(default=3, ge=0, description="Threads to report; 9999 reports all.")
    master_timeout: Time = Field(
        default="30s", description="How long to wait for the manager node, which is always there."
    )
    timeout: Time = Field(default="30s", description="How long to wait for the nodes; a longer sampling fails.")
    type: Literal["cpu", "wait", "block"] = Field(default="cpu", description="The kind of time that is sampled.")

    @property
    def seconds(self) -> float:
        """How long the sampling takes."""
        return nanoseconds(self.interval) / 1e9 + self.snapshots * 0.01


def nanoseconds(text: str) -> int:
    """Read a time."""
    digits, unit = re.findall(r"\d+|\D+$", text + ("" if text.strip("0") else "s"))
    return int(digits) * _NANOS[unit]


def time_text(nanos: int) -> str:
    """Write a time as the cluster does: the largest unit that fits, one decimal cut off, none if it is zero."""
    for unit, size in _NANOS.items():
        if nanos >= size:
            whole, tenth = divmod(nanos * 10 // size, 10)
            return f"{whole}.{tenth}{unit}" if tenth else f"{whole}{unit}"
    return "0s"


def section(node: Node, *, cpu: float, at: str, sampling: Sampling) -> str:
    """Write one node's part of a report that began ``at``, with the empty line that ends it. CPU is in percent."""
    attributes = ", ".join(f"{name}={value}" for name, value in node.attributes.items())
    slots = (node.name, node.id, node.ephemeral_id, HOST, node.address, "".join(sorted(ROLES.values())), attributes)
    ignores_idle = sampling.ignore_idle_threads == "true"
    interval = nanoseconds(sampling.interval)
    asked = f"interval={time_text(interval)}, busiestThreads={sampling.threads}"
    lines = [f"Hot threads at {at}, {asked}, ignoreIdleThreads={sampling.ignore_idle_threads}:"]
    threads = [*(BUSY if cpu > 0 else ()), *(() if ignores_idle else IDLE)]
    for thread in threads[: sampling.threads]:
        # Waiting and blocking are not measured, and read zero.
        spent = round(interval * cpu * thread.share / 100_000) if sampling.type == "cpu" else 0
        figures = f"{100 * spent / interval:4.1f}% ({time_text(spent)} out of {time_text(interval)})"
        name = thread.name.format(node=node.name)
        lines += ["", f"{figures} {sampling.type} usage by thread '{name}'", *_stacks(thread, sampling.snapshots)]
    # The cluster indents every line of a node's report, empty ones too.
    head = "".join(f"{{{slot}}}" for slot in slots)
    return f"::: {head}\n" + "".join(f"   {line}\n" for line in lines) + "\n"


def _stacks(thread: Thread, snapshots: int) -> Iterator[str]:
    for count, frames in _shared_out(thread, snapshots):
        if count == 1:
            yield "  unique snapshot"
        else:
            yield f"  {count}/{snapshots} snapshots sharing following {len(frames)} elements"
        for frame in frames:
            yield f"    {frame}"


def _shared_out(thread: Thread, snapshots: int) -> list[tuple[int, Stack]]:
    """Share out the snapshots among the stacks; the first has those that rounding leaves over."""
    counts = [snapshots * tenths // 10 for tenths, _ in thread.seen]
    counts[0] += snapshots - sum(counts)
    return [(count, stack) for count, (_, stack) in zip(counts, thread.seen, strict=True) if count]
