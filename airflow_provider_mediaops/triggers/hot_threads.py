"""The trigger of the operator that captures hot threads: the capture is taken here, the moment nodes run hot."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.hooks.threads import import_in_thread
from airflow_provider_mediaops.triggers.base import WorkTrigger, reading_row
from airflow_provider_mediaops.triggers.deferral import SETTLED_AFTER_SECONDS

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Call, Conversation
    from airflow_provider_mediaops.triggers.shared_readings import SharedCluster

T = TypeVar("T")

# A DAG file is parsed without them, and the event loop does not wait for their import.
_RUN_TIME_MODULES = (
    "airflow_provider_mediaops.cluster.capture_files",
    "airflow_provider_mediaops.cluster.capture_on_spike",
    "airflow_provider_mediaops.triggers.shared_readings",
    "airflow_provider_mediaops.triggers.waits",
)


class CaptureHotThreadsTrigger(WorkTrigger):
    """
    Waits in the triggerer until nodes run hot, captures their hot threads in the same step, and writes the files.

    All that wait on one connection share its readings. There is one event, with paths and counts: what
    :func:`~airflow_provider_mediaops.cluster.capture_on_spike.capture_when_hot` says became of it, or a typed error.
    Where the triggerer restarts, a streak of high readings begins anew, and so does a series of captures. The
    constructor takes plain values and never raises, because an exception there stops the whole triggerer.

    :param conn_id: the connection's id.
    :param plan: what is captured, and when: the fields of ``CapturePlan``, plain values.
    :param destination: the path of the text.
    :param formats: what is written.
    :param deadline: when the wait ends, in seconds since 1970, so that a restart does not prolong it.
    :param taken_for: the task attempt that the page names: the fields of ``TakenFor``; None in older rows.
    :param settled_after: the event comes no sooner than so many seconds after the trigger's start.
    """

    def __init__(
        self,
        *,
        conn_id: str,
        plan: dict[str, Any],
        destination: str,
        formats: list[str],
        deadline: float,
        taken_for: dict[str, Any] | None = None,
        settled_after: float = SETTLED_AFTER_SECONDS,
    ) -> None:
        super().__init__(settled_after=settled_after)
        self.conn_id = conn_id
        self.plan = plan
        self.destination = destination
        self.formats = formats
        self.deadline = deadline
        self.taken_for = taken_for

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which Airflow makes this trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "conn_id": self.conn_id,
            "plan": self.plan,
            "destination": self.destination,
            "formats": self.formats,
            "deadline": self.deadline,
            "taken_for": self.taken_for,
            "settled_after": self.settled_after,
        }

    async def _result(self) -> dict[str, Any]:
        await import_in_thread(*_RUN_TIME_MODULES)
        from airflow_provider_mediaops.cluster.capture import CaptureDestination
        from airflow_provider_mediaops.cluster.capture_files import CaptureFiles
        from airflow_provider_mediaops.cluster.capture_on_spike import CapturePlan, capture_when_hot
        from airflow_provider_mediaops.cluster.capture_reason import TakenFor
        from airflow_provider_mediaops.triggers.shared_readings import shared_cluster
        from airflow_provider_mediaops.triggers.waits import carried_out

        with reading_row():
            plan = CapturePlan.from_dict(self.plan)
            taken_for = TakenFor.from_dict(self.taken_for)
            files = CaptureFiles(CaptureDestination(self.destination, self.formats, plan.captures, taken_for), self.log)
            deadline = time.monotonic() + (self.deadline - time.time())
        async with shared_cluster(self.conn_id) as cluster:
            conversation = capture_when_hot(
                partial(_asked, cluster),
                plan,
                files,
                readings=cluster.readings(plan.query.nodes, plan.poll_interval),
                deadline=deadline,
                tell=self._tell,
            )
            return await carried_out(conversation)

    def _tell(self, level: int, sentence: str) -> None:
        self.log.log(level, "%s", sentence)


def _asked(cluster: SharedCluster, call: Call[T]) -> Conversation[T]:
    from airflow_provider_mediaops.http.exchange import awaiting

    return awaiting(lambda: cluster.aask(call))
