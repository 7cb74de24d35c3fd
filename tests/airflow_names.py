"""Names of Airflow's that only tests use, and that have moved since Airflow 3.1; see ``version_compat``."""

try:
    from airflow.sdk.exceptions import AirflowRescheduleException, TaskDeferred
except ImportError:  # Airflow below 3.2
    from airflow.exceptions import AirflowRescheduleException, TaskDeferred  # type: ignore[no-redef]

__all__ = ["AirflowRescheduleException", "TaskDeferred"]
