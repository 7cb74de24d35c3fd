"""Hand the provider's metrics to Airflow's own Stats, for StatsD and OpenTelemetry."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.version_compat import airflow_stats

if TYPE_CHECKING:
    from airflow_provider_mediaops.metrics import Kind

_stats: Any = None


def use_airflow_metrics() -> None:
    """Let the counts of this process go to Airflow's Stats from now on."""
    global _stats  # noqa: PLW0603 it is imported once
    if _stats is None:
        try:
            _stats = airflow_stats()
            # Without a name it sends nothing, and Airflow makes its client: that looks up the name of a host.
            _stats.timer()
        except Exception:  # noqa: BLE001 no metric backend is worth a task
            return
        metrics.hand_to(_to_airflow)


def _to_airflow(kind: Kind, name: str, value: float) -> None:
    name = f"mediaops.{name}"
    if kind == "counter":
        _stats.incr(name, int(value))
    elif kind == "timer":
        _stats.timing(name, timedelta(seconds=value))
    else:
        # OpenTelemetry refuses all metrics of a process for one integer of more than 64 bits.
        _stats.gauge(name, float(value))
