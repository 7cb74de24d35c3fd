"""The triggers that wait in the place of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.sensors.base import ServiceSensor
from tests.airflow_names import TaskDeferred
from tests.contract.tasks import Task, name_of

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


def trigger_of(task: Task, **arguments: Any) -> BaseTrigger:
    """Take the trigger that waits in a task's place."""
    made = task.make(deferrable=True, **arguments)
    if isinstance(made, ServiceSensor):
        return made.make_trigger(made.make_watch())
    with pytest.raises(TaskDeferred) as caught:
        made.execute({})
    trigger: BaseTrigger = caught.value.trigger
    return trigger


# The sandbox's second node runs hot at times; what is waited for has to come at once.
AT_ONCE: dict[str, dict[str, Any]] = {
    "SubscriptionSensor": {"for_channel_ids": None},
    "ClusterCpuSensor": {"threshold": 0, "sustained_for": 0},
    "CaptureHotThreadsOperator": {
        "when_cpu_above": 0,
        "sustained_for": 0,
        "formats": ["txt", "json", "folded", "html"],
    },
}


def made(task: Task, folder: Path) -> BaseTrigger:
    """Make the trigger that waits in a task's place, for what is there at once."""
    return trigger_of(task.writing_to(folder), **AT_ONCE.get(name_of(task), {}))
