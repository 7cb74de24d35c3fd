"""The trigger of the operator that captures hot threads: the capture is taken here, the moment nodes run hot."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_mediaops.exceptions import InvalidConnectionError, MediaOpsError
from airflow_provider_mediaops.http.exchange import Do, arun
from airflow_provider_mediaops.triggers.event import done_event, error_event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_provider_mediaops.http.exchange import Call, Conversation, Request
    from airflow_provider_mediaops.triggers.cluster_readings import SharedCluster

T = TypeVar("T")

# A task that goes on within seconds of its deferral may be failed by Airflow, which then takes the late news of its
# pause for the end of what it has just begun (apache/airflow#71580). So the capture is taken at once, and told later.
_SETTLED_AFTER = 10.0


class CaptureHotThreadsTrigger(BaseTrigger):
    """
    Waits in the triggerer until nodes run hot, captures their hot threads in the same step, and writes the files.

    All that wait on one connection share its readings. There is one event, with paths and counts: what
    :func:`~airflow_provider_mediaops.cluster.detection.capture_when_hot` says became of it, or a typed error. Where the
    triggerer restarts, a streak of high readings begins anew, and so does a series of captures. The constructor takes
    plain values and never raises, because an exception there stops the whole triggerer.

    :param conn_id: the connection's id.
    :param plan: what is captured, and when: the fields of ``CapturePlan``, plain values.
    :param destination: the path of the text.
    :param formats: what is written.
    :param deadline: when the wait ends, in seconds since 1970, so that a restart does not prolong it.
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
        settled_after: float = _SETTLED_AFTER,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id = conn_id
        self.plan = plan
        self.destination = destination
        self.formats = formats
        self.deadline = deadline
        self.settled_after = settled_after

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Give the class and the arguments that make this trigger again."""
        arguments = {
            "conn_id": self.conn_id,
            "plan": self.plan,
            "destination": self.destination,
            "formats": self.formats,
            "deadline": self.deadline,
            "settled_after": self.settled_after,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, capture, and yield one event: what became of it, or an error."""
        started = time.monotonic()
        payload = await self._payload()
        await asyncio.sleep(self.settled_after - (time.monotonic() - started))
        yield TriggerEvent(payload)

    async def _payload(self) -> dict[str, Any]:
        try:
            return done_event(await self._capture())
        except MediaOpsError as error:
            return error_event(error)
        except OSError as error:
            # Of no class of ours, and retried as the task says; with its number it will have its class again.
            return done_event({"unwritable": [error.errno, error.strerror] if error.errno else [str(error)]})
        # TypeError and KeyError: a row of another version of this provider, whose plan has other fields.
        except (TypeError, ValueError, KeyError) as error:
            return error_event(InvalidConnectionError(f"The trigger's arguments cannot be used: {error}"))

    async def _capture(self) -> dict[str, Any]:
        # Imported here: a DAG's file is parsed without it.
        from airflow_provider_mediaops.cluster.capture import CaptureDestination
        from airflow_provider_mediaops.cluster.detection import CapturePlan, capture_when_hot
        from airflow_provider_mediaops.hooks.threads import in_thread
        from airflow_provider_mediaops.storage.captures import CaptureFiles
        from airflow_provider_mediaops.triggers.cluster_readings import shared_cluster

        plan = CapturePlan.from_dict(self.plan)
        files = CaptureFiles(CaptureDestination(self.destination, self.formats, plan.captures), self.log)
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
            return await arun(conversation, _send, in_thread=in_thread)

    def _tell(self, level: int, sentence: str) -> None:
        self.log.log(level, "%s", sentence)


def _asked(cluster: SharedCluster, call: Call[T]) -> Conversation[T]:
    # By the hook of the moment: the connection may have been edited since the wait began.
    answer: T = yield Do(_no_loop, lambda: cluster.hook.aask(call))
    return answer


def _no_loop() -> NoReturn:
    raise RuntimeError("A trigger runs on an event loop.")


async def _send(request: Request) -> NoReturn:
    raise RuntimeError(f"{request.path} is asked for by the cluster's hook.")
