"""The trigger of the video platform's sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.triggers.base import WatchTrigger

if TYPE_CHECKING:
    from airflow_provider_mediaops.hooks.video import VideoPlatformHook
    from airflow_provider_mediaops.video.subscription_exists import SubscriptionWatch


class SubscriptionTrigger(WatchTrigger):
    """Waits in the triggerer for a subscription; its ``watch`` holds the fields of ``SubscriptionWatch``."""

    def _make_hook(self) -> VideoPlatformHook:
        from airflow_provider_mediaops.hooks.video import VideoPlatformHook

        return VideoPlatformHook(self.conn_id)

    def _make_watch(self) -> SubscriptionWatch:
        from airflow_provider_mediaops.video.subscription_exists import SubscriptionWatch

        return SubscriptionWatch(**self.watch)
