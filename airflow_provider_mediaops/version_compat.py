"""
What differs between the versions of Airflow that the provider runs on: 3.1, 3.2 and 3.3.

No other module tries an import of Airflow's to find out its version, but ``plugin/airflow_plugin.py``: every process of
Airflow loads it, so it imports next to nothing. Each name here says with which minimum version it
can go. Some differences of Airflow 3.1 are handled in their place, and can go with the minimum version 3.2:

- ``hooks/base.py``: it asks the hook class for the connection form; later versions read the metadata. It may not know
  the defaults of a provider's options where a task runs.
- ``plugin/airflow_plugin.py``: the API server of 3.1.0 does not know the reader of a page within Airflow's own.
- ``storage/paths.py``: its universal_pathlib lets relative paths begin at the root.
- ``hooks/threads.py`` and the shared readings of the triggers: its triggerer reads the answers of its supervisor out of
  order if a plain thread asks, or if a question is given up before its answer was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import ObjectStoragePath

# Airflow 3.1 has these in its core, from which a worker of 3.2 must not import. The fallback can go with 3.2.
try:
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRescheduleException,
        AirflowSensorTimeout,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferralTimeout,
    )
except ImportError:
    from airflow.configuration import conf
    from airflow.exceptions import (  # type: ignore[attr-defined,no-redef]
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRescheduleException,
        AirflowSensorTimeout,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferralTimeout,
    )

# Retry policies (AIP-105) came with Airflow 3.3. Below, a permanent error becomes an AirflowFailException, and the
# service's Retry-After has no effect on the task's delay. The flag can go with 3.3.
try:
    from airflow.sdk import RetryDecision, RetryPolicy

    HAS_RETRY_POLICY = True
except ImportError:
    HAS_RETRY_POLICY = False

__all__ = [
    "HAS_RETRY_POLICY",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowRescheduleException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "RetryDecision",
    "RetryPolicy",
    "TaskDeferralTimeout",
    "airflow_stats",
    "conf",
    "conn_id_of",
]


def airflow_stats() -> Any:
    """Return Airflow's metrics. The fallback can go with 3.2: the common-compat of 3.1.0 has no such names."""
    try:
        from airflow.providers.common.compat.sdk import Stats  # noqa: TID251 the fallback is here
    except ImportError:
        from airflow.stats import Stats
    return Stats


def conn_id_of(path: ObjectStoragePath) -> str | None:
    """Return the connection id of a path, if any. It can go with 3.2: 3.1 keeps it among the storage options."""
    conn_id: str | None = getattr(path, "conn_id", None) or path.storage_options.get("conn_id")
    return conn_id
