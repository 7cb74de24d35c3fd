"""The former place of ``PostBulletinNotifier``, whose path stands in deadline alerts that Airflow has stored."""

from airflow_provider_mediaops.notifications.video import PostBulletinNotifier

__all__ = ["PostBulletinNotifier"]
