"""Decide whether a task waits in the triggerer, for how long at most, and with which event it resumes."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_mediaops.exceptions import InvalidReplyError, MediaOpsError, error_from_dict

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.triggers.base import BaseTrigger

#: The most bytes of a trigger's arguments. MySQL keeps 65,535, and encryption makes them longer by a third.
MAX_ARGUMENTS_BYTES = 48_000
# Airflow's own limit of a deferral comes so much later than that of the trigger: it is for a triggerer that is gone.
_SLACK_SECONDS = 60.0
# Of the events: a task may resume with another version of the provider than its trigger had.
_VERSION = 1


def can_defer(task: BaseOperator, trigger: BaseTrigger) -> bool:
    """Return whether a task can be deferred; if not, its log says why, and it does its work in the worker."""
    size = arguments_bytes(trigger.serialize()[1])
    if size <= MAX_ARGUMENTS_BYTES:
        return True
    task.log.warning(
        "This task is not deferred: the arguments of its trigger have %s bytes, and the databases of Airflow take %s. "
        "It does its work in the worker, and holds a slot meanwhile. Shorten its lists, or divide them between tasks.",
        f"{size:,}",
        f"{MAX_ARGUMENTS_BYTES:,}",
    )
    return False


def arguments_bytes(arguments: dict[str, Any]) -> int:
    """Return the size of a trigger's arguments as Airflow serialises them, before it encrypts them."""
    # Airflow writes JSON in ASCII, as this does.
    return len(json.dumps(arguments))


def deferral_timeout(task: BaseOperator, started: float, own_limit: float | None = None) -> timedelta | None:
    """
    Return how long a task may be deferred; None for no limit.

    Airflow itself keeps ``execution_timeout`` only while a worker has the task, which began to execute at ``started``,
    a time of ``time.monotonic``. The trigger keeps the task's own limit, in seconds; Airflow's comes a minute later.
    """
    own = None if own_limit is None else own_limit + _SLACK_SECONDS
    if task.execution_timeout is None:
        return None if own is None else timedelta(seconds=own)
    left = max(task.execution_timeout.total_seconds() - (time.monotonic() - started), 0.0)
    return timedelta(seconds=left if own is None else min(left, own))


def is_over_execution_timeout(task: BaseOperator, own_limit: float) -> bool:
    """Return whether a deferral that timed out had come to ``execution_timeout``, and not to the task's own limit."""
    return task.execution_timeout is not None and task.execution_timeout.total_seconds() < own_limit + _SLACK_SECONDS


def done_event(value: Any) -> dict[str, Any]:
    """Return the payload of a trigger that has a result: plain values, counts and paths, nothing large."""
    return {"version": _VERSION, "status": "done", "value": value}


def error_event(error: MediaOpsError) -> dict[str, Any]:
    """Return the payload of a trigger that ended with a typed error."""
    return {"version": _VERSION, "status": "error", "error": error.to_dict()}


def value_of(event: object) -> Any:
    """Return the value of an event, or raise its error; called in the task."""
    fields = event if isinstance(event, dict) else {}
    if fields.get("status") == "done":
        return fields.get("value")
    error = fields.get("error")
    if fields.get("status") == "error" and isinstance(error, dict):
        raise error_from_dict(error)
    raise _unreadable(fields)


def summary_of(event: object) -> dict[str, Any]:
    """Return the summary in an event, or raise its error, as :func:`value_of` does; called in the task."""
    summary = value_of(event)
    if isinstance(summary, dict):
        return summary
    # It has a value, so it is a dictionary.
    raise _unreadable(cast("dict[str, Any]", event))


def _unreadable(event: dict[str, Any]) -> InvalidReplyError:
    version = event.get("version")
    return InvalidReplyError(f"The trigger sent an event that this version of the provider cannot read ({version=}).")
