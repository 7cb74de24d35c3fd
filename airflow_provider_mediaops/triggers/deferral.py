"""Decide whether a task waits in the triggerer, and how soon it may come back."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import conf

from airflow_provider_mediaops.arguments import read_flag

#: Airflow may fail a task that resumes within seconds of its deferral, because it takes the late message of the pause
#: for the end of what the task has just begun (apache/airflow#71580). So an event is yielded no sooner than this.
SETTLED_AFTER_SECONDS = 10.0


def read_deferrable(value: object) -> bool:
    """
    Read the argument ``deferrable`` of an operator or sensor.

    :param value: a flag, or None for the option ``default_deferrable`` of Airflow's section ``[operators]``.
    :returns: whether the task waits in the triggerer.
    :raises InvalidArgumentError: if it is no flag.
    """
    if value is None:
        value = conf.getboolean("operators", "default_deferrable", fallback=False)
    return read_flag("deferrable", value)
