"""Notifiers: what to do when a task or a DAG run ends, or misses its deadline."""

from __future__ import annotations

from airflow_provider_mediaops.notifications.bulletin import PostBulletinNotifier
from airflow_provider_mediaops.notifications.hot_threads import CaptureHotThreadsNotifier

__all__ = ["CaptureHotThreadsNotifier", "PostBulletinNotifier"]
