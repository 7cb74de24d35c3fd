"""Notifiers: what to do when a task or a DAG run ends, or misses its deadline."""

from __future__ import annotations

from airflow_provider_mediaops.notifications.cluster import CaptureHotThreadsNotifier
from airflow_provider_mediaops.notifications.video import PostBulletinNotifier

__all__ = ["CaptureHotThreadsNotifier", "PostBulletinNotifier"]
