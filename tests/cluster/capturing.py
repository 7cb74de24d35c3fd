"""A capture over a hook, with the running tasks of the nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.capture.model import take_capture
from airflow_provider_mediaops.cluster.query import HotThreadsQuery
from airflow_provider_mediaops.cluster.running_tasks.sampling import TaskSampler
from airflow_provider_mediaops.http.exchange import Clock

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.capture.model import Capture
    from airflow_provider_mediaops.hooks.cluster import SearchClusterHook


def captured(hook: SearchClusterHook, nodes: str | None = None, **query: Any) -> Capture:
    """Read the CPU of nodes, their hot threads and, meanwhile, their tasks."""
    sampler = TaskSampler(hook.asking, Clock())
    return hook.run(take_capture(hook.asking, HotThreadsQuery(nodes, **query), sampler=sampler))
