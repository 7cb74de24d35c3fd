"""The CPU that tasks used within the window of a report, worked out from the looks at them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_mediaops.cluster.running_tasks.replies import Task
    from airflow_provider_mediaops.cluster.running_tasks.sampling import Look

# A look so near to an end of the window stands for it. Measured: threads get less CPU than otherwise while a node takes
# its readings and lists its tasks, so that a figure which is carried on at the usual rate is farther off.
_NEAR_MS = 20.0


@dataclass(frozen=True, slots=True)
class Window:
    """The time in which the CPU of threads was measured, in milliseconds since 1970 by the node's clock."""

    start_ms: float
    end_ms: float


@dataclass(slots=True)
class TaskHistory:
    """A task over all looks."""

    # The task at each look at which it was listed, by the number of the look, from 0 on, in order.
    marks: dict[int, Task] = field(default_factory=dict)

    @property
    def last(self) -> Task:
        """The task as it was listed last."""
        return next(reversed(self.marks.values()))

    @property
    def had_one_thread(self) -> bool:
        """Whether one thread worked for it all the time; with concurrent segment search there are several."""
        return all(mark.executions == 1 and mark.active_threads == 1 for mark in self.marks.values())

    def covers(self, window: Window) -> bool:
        """Return whether it was under way from the start of the window to its end."""
        return self.last.started_ms <= window.start_ms and self.last.listed_at_ms >= window.end_ms - _NEAR_MS

    def cpu_within(self, window: Window) -> float | None:
        """
        Return its CPU within a window, in milliseconds; None if the cluster does not say.

        Of a task that ended within the window, it is too low: only its CPU at the last look is known.
        """
        points = [(mark.listed_at_ms, mark.cpu_ms) for mark in self.marks.values() if mark.cpu_ms is not None]
        if not points:
            return None
        return max(0.0, self._cpu_at(window.end_ms, points) - self._cpu_at(window.start_ms, points))

    def _cpu_at(self, when_ms: float, points: list[tuple[float, float]]) -> float:
        near_ms, near = min((abs(at - when_ms), figure) for at, figure in points)
        if self.last.started_ms >= when_ms:
            return 0.0
        return near if near_ms <= _NEAR_MS else _between([(self.last.started_ms, 0.0), *points], when_ms)


def _between(points: list[tuple[float, float]], when: float) -> float:
    """Return a figure that grows evenly from point to point, at a time; after the last point it stays."""
    before_at, before = points[0]
    for at, figure in points[1:]:
        if when <= at:
            return before + (figure - before) * (when - before_at) / (at - before_at)
        before_at, before = at, figure
    return before


def histories_of(looks: Iterable[Look], node_id: str) -> dict[str, TaskHistory]:
    """Follow the tasks of one node over the looks."""
    histories: dict[str, TaskHistory] = {}
    for number, look in enumerate(looks):
        for task in look.tasks:
            if task.node_id == node_id:
                histories.setdefault(task.task_id, TaskHistory()).marks[number] = task
    return histories
