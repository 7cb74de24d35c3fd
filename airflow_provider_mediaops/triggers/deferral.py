"""Decide whether a task waits in the triggerer."""

from __future__ import annotations

from airflow.providers.common.compat.sdk import conf

from airflow_provider_mediaops.arguments import read_flag


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
