"""The former place of ``CaptureHotThreadsNotifier``, whose path stands in deadline alerts that Airflow has stored."""

from airflow_provider_mediaops.notifications.cluster import CaptureHotThreadsNotifier

__all__ = ["CaptureHotThreadsNotifier"]
