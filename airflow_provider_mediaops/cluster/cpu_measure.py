"""Measure the CPU of a node in the ways that its version and its container allow, and choose one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow_provider_mediaops.cluster.plain_values import figure_at, mapping_at, number_of, value_at

Measure = Literal["os", "process", "cgroup"]
"""The machine as Java sees it; the node's own process; its container against the limit (the quota of its cgroup)."""

CpuMeasure = Literal["auto", "os", "process", "cgroup"]
"""The measure that a connection asks for. ``auto``: whichever is the highest."""

_NAMES: dict[Measure, str] = {"os": "its machine", "process": "its process", "cgroup": "its container's limit"}
_HIGHEST = 100.0
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class CgroupUse:
    """The processor time that a container with a limit had used at a moment."""

    at_ms: float  # by the node's clock
    used_ms: float  # by all its processes since its start
    cores: float  # the limit: quota by period

    @classmethod
    def read(cls, node: Mapping[str, Any]) -> CgroupUse | None:
        """Read the counters of a node; None without a limit, and if the node does not give them."""
        machine = mapping_at(node, "os")
        at_ms, used_ns = figure_at(machine, "timestamp"), figure_at(machine, "cgroup", "cpuacct", "usage_nanos")
        quota = figure_at(machine, "cgroup", "cpu", "cfs_quota_micros")
        period = figure_at(machine, "cgroup", "cpu", "cfs_period_micros")
        if at_ms is None or used_ns is None or not quota or not period:
            return None
        own_ms = figure_at(node, "process", "cpu", "total_in_millis") or 0.0
        used_ms = used_ns / _NS_PER_MS
        # Before 8.10, Elasticsearch gave microseconds under this name where the cgroup is of version 2. The process is
        # in the container, so it cannot have used more than that.
        if used_ms < own_ms / 2:
            used_ms *= 1000
        return cls(at_ms, used_ms, quota / period)

    def percent_since(self, before: CgroupUse | None) -> float | None:
        """
        Return the used share of the limit, in percent, at most 100, which a burst may exceed.

        None for other counters: the node was restarted, its limit was changed, or the servers have not measured again.
        """
        if before is None or before.cores != self.cores:
            return None
        passed_ms, used_ms = self.at_ms - before.at_ms, self.used_ms - before.used_ms
        if passed_ms <= 0 or used_ms < 0:
            return None
        return min(_HIGHEST, round(100 * used_ms / (passed_ms * self.cores), 1))


def measured(
    node: Mapping[str, Any], wanted: CpuMeasure, before: CgroupUse | None = None
) -> tuple[float | None, Measure | None]:
    """Return the CPU of a node in percent, and its measure; twice None if the node does not give it."""
    own, cpu, use = mapping_at(node, "process", "cpu"), mapping_at(node, "os", "cpu"), CgroupUse.read(node)
    # Elasticsearch from 5 on and OpenSearch; 2; and 1.
    of_machine = (cpu.get("percent"), value_at(node, "os", "cpu_percent"), cpu.get("usage"))
    figures: dict[Measure, float | None] = {
        "os": next((percent for value in of_machine if (percent := _percent(value)) is not None), None),
        # Elasticsearch 1 counts 100 % for each core of the process, and does not say how many there are.
        "process": None if "usage" in cpu or "sys_in_millis" in own else _percent(own.get("percent")),
        "cgroup": use.percent_since(before) if use else None,
    }
    known = {name: percent for name, percent in figures.items() if percent is not None and wanted in ("auto", name)}
    source = max(known, key=lambda name: known[name], default=None)
    return (None, None) if source is None else (known[source], source)


def measure_name(source: Measure | None) -> str:
    """Return the words for a measure."""
    return "" if source is None else _NAMES[source]


def _percent(value: object) -> float | None:
    # -1 means that the node cannot measure it.
    number = number_of(value)
    return number if number is not None and 0 <= number <= _HIGHEST else None
