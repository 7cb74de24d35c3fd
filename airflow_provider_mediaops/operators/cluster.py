"""The operator of the search cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_mediaops.task_failure import ending_task, is_templated, use_retry_policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_provider_mediaops.hooks.cluster import HotThreadsArguments


class CaptureHotThreadsOperator(BaseOperator):
    """
    Capture the hot threads of a search cluster's nodes into files, and return a summary (search-cluster.md).

    The text is kept byte for byte as the cluster sent it; beside it stands the same report in JSON, for programs.
    Each file appears whole or not at all, and an older one of the same name is replaced. The CPU of the nodes is read
    right before; where the user may not read it, the summary has None for it.

    The summary holds ``paths`` (by format), ``bytes`` (of the text), ``nodes`` with the number of their threads,
    ``cpu`` of the nodes, the ``hottest`` threads, the nodes that are ``missing`` in the report, and how many pieces of
    it were ``unparsed``.

    :param destination: the path of the text on the local disk or any object store (``s3://conn_id@bucket/key.txt``);
        for each format its suffix takes the place of ``.txt``, or is appended.
    :param nodes: ids or names of nodes, in a list or in one text with commas; None for all.
    :param ignore_idle_threads: whether known idle threads are left out.
    :param interval: the time between the samplings: a whole number and a unit (nanos, micros, ms, s, m, h, d).
    :param snapshots: how many samples are taken of each thread's stack.
    :param threads: how many threads are reported for each node; a large number reports all.
    :param type: ``cpu``, ``wait`` or ``block``.
    :param master_timeout: how long the cluster may look for its master.
    :param timeout: how long the cluster may wait for its nodes.
    :param formats: what is written: ``txt``, ``json``, or both.
    :param cluster_conn_id: the connection's id.
    :raises ValueError: for what the service would refuse: here, unless an argument is templated.
    """

    template_fields: Sequence[str] = (
        "destination",
        "nodes",
        "interval",
        "snapshots",
        "threads",
        "type",
        "master_timeout",
        "timeout",
        "cluster_conn_id",
    )

    def __init__(
        self,
        *,
        destination: str,
        nodes: str | Sequence[str] | None = None,
        ignore_idle_threads: bool = True,
        interval: str = "500ms",
        snapshots: int | str = 10,
        threads: int | str = 3,
        type: str = "cpu",
        master_timeout: str = "30s",
        timeout: str = "30s",
        formats: Sequence[str] = ("txt", "json"),
        cluster_conn_id: str = "mediaops_cluster_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.destination = destination
        self.nodes = nodes
        self.ignore_idle_threads = ignore_idle_threads
        self.interval = interval
        self.snapshots = snapshots
        self.threads = threads
        self.type = type
        self.master_timeout = master_timeout
        self.timeout = timeout
        self.formats = formats
        self.cluster_conn_id = cluster_conn_id
        if not is_templated(destination):
            self._paths()
        if not is_templated(nodes, interval, snapshots, threads, type, master_timeout, timeout):
            from airflow_provider_mediaops.cluster.api import HotThreadsQuery

            HotThreadsQuery(nodes, **self._arguments())
        use_retry_policy(self)

    def execute(self, context: Context) -> dict[str, Any]:
        """Capture, write the files, and return the summary."""
        from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
        from airflow_provider_mediaops.storage.captures import write_capture

        with ending_task(), SearchClusterHook(self.cluster_conn_id) as hook:
            paths = self._paths()
            capture = hook.capture(self.nodes, **self._arguments())
            write_capture(capture, paths, self.log)
        return {"paths": paths, **capture.summary()}

    def _paths(self) -> dict[str, str]:
        from airflow_provider_mediaops.cluster.capture import capture_paths

        return capture_paths(self.destination, self.formats)

    def _arguments(self) -> HotThreadsArguments:
        return {
            "ignore_idle_threads": self.ignore_idle_threads,
            "interval": self.interval,
            "snapshots": _count("snapshots", self.snapshots),
            "threads": _count("threads", self.threads),
            "type": self.type,
            "master_timeout": self.master_timeout,
            "timeout": self.timeout,
        }


def _count(name: str, value: int | str) -> int:
    # A template gives a text.
    try:
        return int(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"{name} is a whole number, 1 or more; not {value!r}.") from None
