"""The operator of the search cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_provider_mediaops.arguments import path_text, read_flag, read_identifier
from airflow_provider_mediaops.exceptions import TemporaryError
from airflow_provider_mediaops.operators.base import ServiceOperator
from airflow_provider_mediaops.operators.links import HotThreadsReportLink
from airflow_provider_mediaops.task_failure import ending_task, given_arguments, templated_arguments
from airflow_provider_mediaops.version_compat import (
    AirflowSensorTimeout,
    AirflowSkipException,
    conf,
)

if TYPE_CHECKING:
    from airflow.sdk import Context, ObjectStoragePath

    from airflow_provider_mediaops.cluster.capture.files import CaptureFiles
    from airflow_provider_mediaops.cluster.capture.plan import CapturePlan
    from airflow_provider_mediaops.lineage import TaskLineage
    from airflow_provider_mediaops.version_compat import TaskDeferralTimeout

_WEEK_SECONDS = 7 * 86_400.0


class CaptureHotThreadsOperator(ServiceOperator):
    """
    Capture the hot threads of a search cluster's nodes into files, at once or the moment nodes run hot.

    Without ``when_cpu_above`` the nodes' CPU is read, and right after it their hot threads. With it the task waits
    until nodes have been at or above it, and the step that sees it asks for the hot threads of just these nodes, before
    anything else. That is the same in a worker and, with ``deferrable``, in the triggerer: there the wait holds no
    worker slot, and the triggerer writes the files. If a capture fails temporarily, or none of the nodes reports, it
    counts as a failure, and the wait continues.

    The text is kept byte for byte as the cluster sent it. Beside it are the same report in JSON, its stacks for
    flame-graph tools, and an HTML page. Each file appears whole or not at all, and replaces an older one of the same
    name; but of two instances of a mapped task that share a destination in one run, at least one fails. Whether the
    files can be written is checked before the wait begins.

    The result has the paths of the files, and what was hot: see
    :class:`~airflow_provider_mediaops.results.CaptureSummary`.

    All arguments but ``deferrable`` are template fields; see the page "Arguments and templates" of the documentation.

    :param destination: the path of the text on the local disk or any object store (``s3://conn_id@bucket/key.txt``): a
        text, a ``pathlib.Path`` or an ``ObjectStoragePath``. Each format has its own suffix in the place of ``.txt``.
        With several captures, each has its number before the suffix; the page is one for all.
    :param nodes: ids or names of nodes, in a list or in one text with commas; None or ``_all`` for all.
    :param ignore_idle_threads: whether known idle threads are left out.
    :param interval: the time between the samplings: a whole number and a unit (nanos, micros, ms, s, m, h, d).
    :param snapshots: how many samples are taken of each thread's stack.
    :param threads: how many threads are reported for each node; a large number reports all.
    :param type: ``cpu``, ``wait`` or ``block``.
    :param master_timeout: how long the cluster may look for its master.
    :param timeout: how long the cluster may wait for its nodes; not less than ``interval`` and 10 ms a snapshot.
    :param when_cpu_above: a node is hot if its CPU in percent is this or more: 0, or 1 to 100 (85, not 0.85); None
        captures at once.
    :param sustained_for: for how long every reading must be so high, in seconds or as a ``timedelta``; with 0, one
        reading suffices, which may be a short peak.
    :param require: ``any``: one node suffices; ``all``: all nodes at the same time, and the CPU of each must be known.
    :param poll_interval: the time between two readings, in seconds or as a ``timedelta``; at most ten seconds while
        nodes are hot, but not yet for ``sustained_for``.
    :param wait_timeout: how long to wait, in seconds or as a ``timedelta``; None for ``[sensors] default_timeout``.
    :param on_timeout: what to do after ``wait_timeout`` without a spike: ``skip`` skips the task; ``fail`` fails it
        without retries, as a sensor's timeout does; ``capture`` captures all of the nodes, hot or not. If there was a
        spike, but no capture of it worked, the task fails with the last error and is retried; so does a task that skips
        or fails if no reading gave the CPU.
    :param captures: how many captures are taken of one spike, so that they can be compared.
    :param every: the time from one capture to the next, in seconds or as a ``timedelta``.
    :param formats: the files to write: any of ``txt``, ``json``, ``folded``, ``kinds`` and ``html``, in a list or in
        one text with commas.
    :param running_tasks: whether the hot nodes are asked what they run while the report is taken; it is in the JSON
        file and on the page, and the heaviest groups are in the result.
    :param show_queries: whether the queries of running tasks are in the files as they were sent, and not only their
        shape without literals. Any user who may list tasks sees the queries of all users.
    :param deferrable: whether to wait in the triggerer, for a spike or between several captures; the default is that of
        ``[operators] default_deferrable``. A single capture without a wait is always taken in the worker.
    :param cluster_conn_id: the connection's id.
    :raises InvalidArgumentError: for an argument that cannot be used: here, or, if it is templated, before the first
        request.
    """

    operator_extra_links = (HotThreadsReportLink(),)
    template_fields_renderers: ClassVar[dict[str, str]] = dict.fromkeys(("nodes", "formats"), "json")

    def __init__(
        self,
        *,
        destination: str | PurePath | ObjectStoragePath,
        nodes: str | Sequence[str] | None = None,
        ignore_idle_threads: bool | str = True,
        interval: str = "500ms",
        snapshots: int | str = 10,
        threads: int | str = 3,
        type: str = "cpu",
        master_timeout: str = "30s",
        timeout: str = "30s",
        when_cpu_above: float | str | None = None,
        sustained_for: float | str | timedelta = 0,
        require: Literal["any", "all"] = "any",
        poll_interval: float | str | timedelta = 30,
        wait_timeout: float | str | timedelta | None = None,
        on_timeout: Literal["skip", "fail", "capture"] = "skip",
        captures: int | str = 1,
        every: float | str | timedelta = 10,
        formats: str | Sequence[str] = ("txt", "json", "folded", "html"),
        running_tasks: bool | str = False,
        show_queries: bool | str = False,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        cluster_conn_id: str = "mediaops_cluster_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.destination = path_text(destination)
        self.nodes = nodes
        self.ignore_idle_threads = ignore_idle_threads
        self.interval = interval
        self.snapshots = snapshots
        self.threads = threads
        self.type = type
        self.master_timeout, self.timeout = master_timeout, timeout
        self.when_cpu_above = when_cpu_above
        self.sustained_for, self.require = sustained_for, require
        self.poll_interval = poll_interval
        self.wait_timeout, self.on_timeout = wait_timeout, on_timeout
        self.captures, self.every = captures, every
        self.formats = formats
        self.running_tasks, self.show_queries = running_tasks, show_queries
        self.deferrable = read_flag("deferrable", deferrable)
        self.cluster_conn_id = cluster_conn_id
        self._check_known()

    own_arguments = templated_arguments(__init__)
    template_fields: Sequence[str] = own_arguments

    def _check(self, given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
        from airflow_provider_mediaops.cluster.capture.plan import check_capture

        check_capture(given, is_unknown, _default_timeout())

    def _plan(self) -> tuple[CapturePlan, float]:
        """Return the plan of the captures, and the longest time to wait for a spike, in seconds."""
        from airflow_provider_mediaops.cluster.capture.plan import read_plan

        return read_plan(given_arguments(self), _default_timeout())

    def _files(self, plan: CapturePlan, context: Context) -> CaptureFiles:
        """Read the rendered destination and connection."""
        from airflow_provider_mediaops.cluster.capture.files import CaptureFiles, own_destination
        from airflow_provider_mediaops.cluster.capture.plan import TakenFor

        self.cluster_conn_id = read_identifier("cluster_conn_id", self.cluster_conn_id)
        self.destination = own_destination(self.destination, context, "capture", self.log.warning)
        taken_for = TakenFor.from_context(context)
        return CaptureFiles(self.destination, self.formats, self.log, captures=plan.captures, taken_for=taken_for)

    def execute(self, context: Context) -> dict[str, Any]:
        """Capture at once or when nodes run hot, here or in the triggerer; write the files, and return the summary."""
        started = time.monotonic()
        with ending_task():
            plan, limit = self._plan()
            files = self._files(plan, context)
            if self.deferrable and (plan.watch or plan.captures > 1):
                self._defer(plan, limit, files, context, started)
            return self._capture(plan, limit, files, context)

    def _capture(self, plan: CapturePlan, limit: float, files: CaptureFiles, context: Context) -> dict[str, Any]:
        from airflow_provider_mediaops.cluster.api import node_stats
        from airflow_provider_mediaops.cluster.capture.on_spike import capture_when_hot
        from airflow_provider_mediaops.hooks.cluster import SearchClusterHook

        with SearchClusterHook(self.cluster_conn_id).stopped_by(self.stop) as hook:
            flow = capture_when_hot(
                hook.asking,
                plan,
                files,
                readings=partial(hook.next_reading, lambda ask: ask(node_stats(plan.query.nodes)), time.monotonic),
                deadline=time.monotonic() + limit,
                log=self.log.log,
            )
            return self._result(context, hook.run(flow))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the triggerer's summary, or raise its typed error."""
        from airflow_provider_mediaops.triggers.base import value_of

        with ending_task():
            return self._result(context, value_of(event))

    def _after_deferral_timeout(self, error: TaskDeferralTimeout, context: Context) -> Any:
        from airflow_provider_mediaops.triggers.base import is_over_execution_timeout

        with ending_task():
            plan, limit = self._plan()
            if is_over_execution_timeout(self, limit + plan.seconds):
                return super()._after_deferral_timeout(error, context)
            # No triggerer ran for the whole wait: its time limit has come.
            return self._capture(plan, 0.0, self._files(plan, context), context)

    def _defer(self, plan: CapturePlan, limit: float, files: CaptureFiles, context: Context, started: float) -> None:
        from airflow_provider_mediaops.cluster.capture.plan import TakenFor, read_formats
        from airflow_provider_mediaops.triggers.cluster import CaptureHotThreadsTrigger

        # The trigger finds it out again; here it costs no wait.
        files.check()
        trigger = CaptureHotThreadsTrigger(
            conn_id=self.cluster_conn_id,
            plan=plan.to_dict(),
            destination=self.destination,
            formats=list(read_formats(self.formats)),
            deadline=time.time() + limit,
            taken_for=asdict(TakenFor.from_context(context)),
        )
        self._defer_to(trigger, self.destination, started=started, limit=limit + plan.seconds)

    def _result(self, context: Context, outcome: dict[str, Any]) -> dict[str, Any]:
        if captures := outcome.get("captures"):
            first, *later = captures
            series = {name: outcome[name] for name in ("failures", "failure_count", "timed_out")}
            result = {**first, "later_captures": later, **series}
            self._note_in_events(context, result)
            return result
        plan, limit = self._plan()
        if failures := outcome.get("failures"):
            raise TemporaryError(
                f"Nodes ran hot within wait_timeout={limit:g} s, but none of {outcome['failure_count']} captures "
                f"worked. The last error: {failures[-1]['message']}"
            )
        failed_readings = outcome["failed_readings"]
        if outcome["no_reading_worked"]:
            raise TemporaryError(f"The CPU is not known within wait_timeout={limit:g} s: {failed_readings}")
        watch = plan.watch
        long = f" for {watch.sustained_for:g} s" if watch and watch.sustained_for else ""
        what = f"No spike in wait_timeout={limit:g} s: the CPU was not at {self.when_cpu_above} % or more{long}"
        what += f"; {failed_readings}" if failed_readings else "."
        raise AirflowSkipException(what) if plan.on_timeout == "skip" else AirflowSensorTimeout(what)

    def _lineage(self, outcome: Mapping[str, Any] | None) -> TaskLineage:
        from airflow_provider_mediaops.lineage import capture_lineage

        return capture_lineage(self.cluster_conn_id, str(self.destination), self.formats, outcome)


def _default_timeout() -> float:
    seconds: float = conf.getfloat("sensors", "default_timeout", fallback=_WEEK_SECONDS)
    return seconds
