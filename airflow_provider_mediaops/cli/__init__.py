"""The commands of ``airflow mediaops`` and of ``python -m airflow_provider_mediaops``."""
