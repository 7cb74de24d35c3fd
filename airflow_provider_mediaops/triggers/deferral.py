"""Decide whether a task waits in the triggerer, and how soon it may resume."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from airflow.sdk import BaseOperator
    from airflow.triggers.base import BaseTrigger

T = TypeVar("T")

#: The minimum time from the start of a task's trigger to its event, in seconds. Airflow may fail a task that resumes
#: sooner: its executor's late report of the deferral is taken for the end of the resumed task (apache/airflow#71580).
SETTLED_AFTER_SECONDS = 10.0
#: The most bytes of a trigger's arguments. MySQL keeps 65,535, and encryption makes them longer by a third.
MAX_ARGUMENTS_BYTES = 48_000
# Airflow's own limit of a deferral comes so much later than that of the trigger: it is for a triggerer that is gone.
_SLACK_SECONDS = 60.0


def can_defer(task: BaseOperator, trigger: BaseTrigger) -> bool:
    """
    Return whether a task can be deferred; if not, its log says why, and it does its work in the worker.

    :param task: the task.
    :param trigger: the trigger that would take its place.
    """
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
    """
    Return the size of a trigger's arguments as Airflow serialises them, before it encrypts them.

    :param arguments: plain values.
    """
    # Airflow writes JSON in ASCII, as this does.
    return len(json.dumps(arguments))


def deferral_timeout(task: BaseOperator, started: float, own_limit: float | None = None) -> timedelta | None:
    """
    Return how long a task may be deferred. Airflow itself keeps ``execution_timeout`` only while a worker has the task.

    :param task: the task.
    :param started: when its execution began, in seconds of ``time.monotonic``.
    :param own_limit: the task's own limit, in seconds, which its trigger keeps; Airflow's comes a minute later.
    :returns: the shorter of the remaining times; None if neither is limited.
    """
    own = None if own_limit is None else own_limit + _SLACK_SECONDS
    if task.execution_timeout is None:
        return None if own is None else timedelta(seconds=own)
    left = max(task.execution_timeout.total_seconds() - (time.monotonic() - started), 0.0)
    return timedelta(seconds=left if own is None else min(left, own))


def is_over_execution_timeout(task: BaseOperator, own_limit: float) -> bool:
    """
    Return whether a deferral that timed out had come to ``execution_timeout``, and not to the task's own limit.

    :param task: the task.
    :param own_limit: the limit given to :func:`deferral_timeout`, in seconds.
    """
    return task.execution_timeout is not None and task.execution_timeout.total_seconds() < own_limit + _SLACK_SECONDS


async def settled(trigger: BaseTrigger, work: Awaitable[T], seconds: float = SETTLED_AFTER_SECONDS) -> T:
    """
    Await the work of a task's trigger, then wait until its event may resume the task.

    ``dag.test()`` runs triggers without a scheduler, so nothing is waited for there.

    :param trigger: the trigger, as it runs.
    :param work: its work.
    :param seconds: the minimum time from the start of the work to the event.
    :returns: the result of the work.
    """
    loop = asyncio.get_running_loop()
    earliest = loop.time() + seconds
    result = await work
    # The triggerer gives each trigger its id before it runs; dag.test() gives none.
    if trigger.trigger_id is not None and (left := earliest - loop.time()) > 0:
        await asyncio.sleep(left)
    return result
