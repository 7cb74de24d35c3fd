"""Why a capture is taken, and for which task attempt or DAG run: the page shows both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.cluster.cpu_watch import CpuWatch

Reason = Literal["spike", "time_limit", "at_once"]
"""Why a capture is taken: nodes ran hot; the time limit of the wait came first; or without any wait."""


@dataclass(frozen=True, slots=True)
class TakenFor:
    """
    The task attempt or DAG run for which a capture is taken; shown on the page.

    :param dag_id: the DAG; None if it is unknown, as all others.
    :param task_id: the task; None if the capture is for a whole run.
    :param map_index: the index of a mapped task; None if the task is not mapped.
    """

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    try_number: int | None = None
    map_index: int | None = None

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> TakenFor:
        """
        Read the task attempt from an Airflow context.

        :param context: the context of a task, or of a callback. That of a DAG's callback has the task that ended last,
            for which the capture is not taken.
        :returns: the names and numbers that the context holds.
        """
        ti = None if "reason" in context else context.get("ti")
        map_index = getattr(ti, "map_index", None)
        return cls(
            dag_id=getattr(ti, "dag_id", None) or getattr(context.get("dag_run") or context.get("dag"), "dag_id", None),
            run_id=getattr(ti, "run_id", None) or context.get("run_id"),
            task_id=getattr(ti, "task_id", None),
            try_number=getattr(ti, "try_number", None),
            map_index=None if map_index == -1 else map_index,
        )


def cause_of(watch: CpuWatch | None, *, timed_out: bool = False) -> str:
    """Return why a capture is taken, in words for the page."""
    if watch is None:
        return "at once, without waiting for high CPU"
    long = f" for {watch.sustained_for:g} s" if watch.sustained_for else ""
    spike = f"CPU ≥ {watch.threshold:g} %{long}, {watch.require} of the watched nodes"
    return f"at the time limit of the wait; not seen: {spike}" if timed_out else spike


def reason_of(watch: CpuWatch | None, *, timed_out: bool = False) -> Reason:
    """Return why a capture is taken, in a word for programs."""
    if watch is None:
        return "at_once"
    return "time_limit" if timed_out else "spike"
