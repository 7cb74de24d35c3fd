"""Captures of a cluster in one call, as an operator takes them, with the running tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.capture.model import take_capture
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.cluster.running_tasks.sampling import task_sampler
from airflow_provider_mediaops.http.exchange import Clock

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.hooks.cluster import SearchClusterHook


def capture_with_tasks(hook: SearchClusterHook, nodes: str | None = None, **query: Any) -> Capture:
    """Read the CPU of nodes, their hot threads and what they run meanwhile."""
    sampler = task_sampler(hook.asking, Clock(), running_tasks=True, show_queries=False)
    return hook.run(take_capture(hook.asking, HotThreadsQuery(nodes, **query), sampler=sampler))
