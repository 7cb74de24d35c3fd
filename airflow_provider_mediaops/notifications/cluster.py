"""Capturing hot threads at the moment when a task or a DAG run ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_provider_mediaops.arguments import path_text, read_path
from airflow_provider_mediaops.notifications.base import ServiceNotifier
from airflow_provider_mediaops.task_failure import given_arguments, is_templated, templated_arguments
from airflow_provider_mediaops.version_compat import conf

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath

    from airflow_provider_mediaops.cluster.capture.plan import TakenFor
    from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow


class CaptureHotThreadsNotifier(ServiceNotifier):
    """
    Capture the hot threads of a search cluster's nodes into files.

    :param destination: the path of the text on the local disk or any object store, for example
        ``s3://conn_id@bucket/{{ run_id }}/{{ ti.task_id }}-{{ ti.try_number }}.txt``; None writes below Airflow's own
        log folder, with one file for each attempt of each task.
    :param nodes: ids or names of nodes, in a list or in one text with commas; None or ``_all`` for all.
    :param ignore_idle_threads: whether known idle threads are left out.
    :param interval: the time between two samplings: a whole number and a unit (nanos, micros, ms, s, m, h, d).
    :param snapshots: how many samples are taken of each thread's stack.
    :param threads: how many threads are reported for each node; a large number reports all.
    :param type: ``cpu``, ``wait`` or ``block``.
    :param master_timeout: how long the cluster may look for its master.
    :param timeout: how long the cluster may wait for its nodes.
    :param formats: the files to write: any of ``txt``, ``json``, ``folded``, ``kinds`` and ``html``, in a list or in
        one text with commas.
    :param running_tasks: whether the busiest nodes are asked what they run while the report is taken; it is in the JSON
        file and on the page.
    :param show_queries: whether the queries of running tasks are in the files as they were sent, and not only their
        shape without literals. Any user who may list tasks sees the queries of all users.
    :param cluster_conn_id: the connection's id.
    :param context: see :class:`~airflow_provider_mediaops.notifications.base.ServiceNotifier`.
    :raises InvalidArgumentError: for an argument that cannot be used: here, or, if it is templated, before anything is
        sent.
    """

    hook_class = "airflow_provider_mediaops.hooks.cluster:SearchClusterHook"
    conn_id_field = "cluster_conn_id"

    def __init__(
        self,
        *,
        destination: str | PurePath | ObjectStoragePath | None = None,
        nodes: str | Sequence[str] | None = None,
        ignore_idle_threads: bool | str = True,
        interval: str = "500ms",
        snapshots: int | str = 10,
        threads: int | str = 3,
        type: str = "cpu",
        master_timeout: str = "30s",
        timeout: str = "30s",
        formats: str | Sequence[str] = ("txt", "json"),
        running_tasks: bool | str = False,
        show_queries: bool | str = False,
        cluster_conn_id: str = "mediaops_cluster_default",
        context: Context | None = None,
    ) -> None:
        super().__init__(context=context)
        self.destination = path_text(destination)
        self.nodes = nodes
        self.ignore_idle_threads = ignore_idle_threads
        self.interval = interval
        self.snapshots = snapshots
        self.threads = threads
        self.type = type
        self.master_timeout = master_timeout
        self.timeout = timeout
        self.formats = formats
        self.running_tasks = running_tasks
        self.show_queries = show_queries
        self.cluster_conn_id = cluster_conn_id
        from airflow_provider_mediaops.cluster.capture.plan import check_capture

        given = given_arguments(self)
        # None means the default.
        check_capture({**given, "destination": "any"} if destination is None else given, is_templated)

    own_arguments = templated_arguments(__init__)
    template_fields: Sequence[str] = own_arguments

    def _flow(self, hook: SearchClusterHook, context: Context) -> CallFlow[None]:
        from airflow_provider_mediaops.http.exchange import Blocking

        capture = yield Blocking(partial(self._capture, context))
        yield from capture(hook.asking)

    def _capture(self, context: Context) -> Callable[[Ask], CallFlow[Any]]:
        """Read the rendered arguments, so that a wrong one spends no request; return what makes the call flow."""
        from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
        from airflow_provider_mediaops.cluster.capture.on_spike import capture_when_hot
        from airflow_provider_mediaops.cluster.capture.plan import TakenFor, read_plan
        from airflow_provider_mediaops.storage.paths import absolute

        taken_for = TakenFor.from_context(context)
        # A template that renders to nothing means the default.
        given = _own_place(taken_for) if self.destination in (None, "") else self.destination
        path = absolute(read_path("destination", given), "destination", self.log.warning)
        files = CaptureFiles(path, self.formats, self.log, taken_for=taken_for)
        plan, _ = read_plan(given_arguments(self))
        return partial(capture_when_hot, plan=plan, files=files, log=self.log.log, cause="at once, by a notifier")


def _own_place(taken_for: TakenFor) -> str:
    # Named as Airflow names its own log files.
    parts = {**asdict(taken_for), "attempt": taken_for.try_number or f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S.%fZ}"}
    folder = conf.get("logging", "base_log_folder").rstrip("/")
    names = ("dag_id", "run_id", "task_id", "map_index", "attempt")
    named = [f"{name}={quote(str(parts[name]), safe=':+')}" for name in names if parts[name] is not None]
    return f"{folder}/hot_threads/{'/'.join(named)}.txt"
