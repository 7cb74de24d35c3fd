"""The former place of ``CaptureHotThreadsTrigger``, which rows in Airflow's database name."""

from airflow_provider_mediaops.triggers.cluster import CaptureHotThreadsTrigger

__all__ = ["CaptureHotThreadsTrigger"]
