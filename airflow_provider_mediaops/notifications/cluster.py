"""Capturing hot threads at the moment when a task or a DAG run ends."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.providers.common.compat.sdk import conf

from airflow_provider_mediaops.notifications.base import ServiceNotifier
from airflow_provider_mediaops.task_failure import is_templated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context
    from typing_extensions import Unpack

    from airflow_provider_mediaops.cluster.capture import Capture
    from airflow_provider_mediaops.cluster.capture_reason import TakenFor
    from airflow_provider_mediaops.hooks.cluster import HotThreadsArguments


class CaptureHotThreadsNotifier(ServiceNotifier):
    """
    Capture the hot threads of a search cluster's nodes into files (search-cluster.md).

    :param destination: the path of the text on the local disk or any object store, for example
        ``s3://conn_id@bucket/{{ run_id }}/{{ ti.task_id }}-{{ ti.try_number }}.txt``; None writes below Airflow's own
        log folder, with one file for each try of each task.
    :param nodes: ids or names of nodes, in a list or in one text with commas; None for all.
    :param formats: what is written: any of ``txt``, ``json``, ``folded`` and ``html``, in a list or in one text with
        commas.
    :param cluster_conn_id: the connection's id.
    :param context: see :class:`~airflow_provider_mediaops.notifications.base.ServiceNotifier`.
    :param query: the parameters of ``SearchClusterHook.hot_threads``: ``interval``, ``snapshots``, ``threads``, …
    :raises ValueError: for what the service would refuse, unless an argument is templated.
    """

    template_fields: Sequence[str] = ("destination", "nodes", "formats", "cluster_conn_id")

    def __init__(
        self,
        *,
        destination: str | None = None,
        nodes: str | Sequence[str] | None = None,
        formats: str | Sequence[str] = ("txt", "json"),
        cluster_conn_id: str = "mediaops_cluster_default",
        context: Context | None = None,
        **query: Unpack[HotThreadsArguments],
    ) -> None:
        from airflow_provider_mediaops.cluster.api import HotThreadsQuery
        from airflow_provider_mediaops.cluster.capture import capture_paths

        super().__init__(context=context)
        self.destination = destination
        self.nodes = nodes
        self.formats = formats
        self.cluster_conn_id = cluster_conn_id
        self.query = query
        HotThreadsQuery(None if is_templated(nodes) else nodes, **query)
        known_formats = ("txt",) if is_templated(formats) else formats
        capture_paths("any" if destination is None or is_templated(destination) else destination, known_formats)

    def send(self, context: Context) -> None:
        """Capture, and write the files."""
        from airflow_provider_mediaops.hooks.cluster import SearchClusterHook

        with SearchClusterHook(self.cluster_conn_id) as hook:
            capture = hook.capture(self.nodes, **self.query)
        self._keep(capture, context)

    async def asend(self, context: Context) -> None:
        """Capture on the event loop, and write the files beside it."""
        from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
        from airflow_provider_mediaops.hooks.threads import in_thread

        async with SearchClusterHook(self.cluster_conn_id) as hook:
            capture = await hook.acapture(self.nodes, **self.query)
        await in_thread(partial(self._keep, capture, context))

    def _keep(self, capture: Capture, context: Context) -> None:
        from airflow_provider_mediaops.cluster.capture import CaptureDestination
        from airflow_provider_mediaops.cluster.capture_files import CaptureFiles
        from airflow_provider_mediaops.cluster.capture_reason import TakenFor

        taken_for = TakenFor.from_context(context)
        destination = CaptureDestination(self.destination or _own_place(taken_for), self.formats, taken_for=taken_for)
        files = CaptureFiles(destination, self.log)
        files.keep(replace(capture, cause="at once, by a notifier"), 1)
        files.finish()


def _own_place(taken_for: TakenFor) -> str:
    # Named as Airflow names its own log files.
    parts = {**asdict(taken_for), "attempt": taken_for.try_number or f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S.%fZ}"}
    folder = conf.get("logging", "base_log_folder").rstrip("/")
    names = ("dag_id", "run_id", "task_id", "map_index", "attempt")
    named = [f"{name}={quote(str(parts[name]), safe=':+')}" for name in names if parts[name] is not None]
    return f"{folder}/hot_threads/{'/'.join(named)}.txt"
