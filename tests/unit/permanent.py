"""How a permanent error ends a task."""

from __future__ import annotations

from airflow_provider_mediaops.version_compat import HAS_RETRY_POLICY, AirflowFailException


def permanent(cls: type[Exception]) -> type[Exception]:
    """Return the class that ends the task: below Airflow 3.3, where no policy stops retries, it is Airflow's own."""
    return cls if HAS_RETRY_POLICY else AirflowFailException
