"""The triggers of the video platform: of the sensor, and of the operator that exports subscriptions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.triggers.base import WatchTrigger
from airflow_provider_mediaops.triggers.dataset import DatasetTrigger

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import TemporaryError
    from airflow_provider_mediaops.hooks.video import VideoPlatformHook
    from airflow_provider_mediaops.video.export import ExportAttempt, LongWaits

_HOOK = "airflow_provider_mediaops.hooks.video:VideoPlatformHook"


class SubscriptionTrigger(WatchTrigger):
    """Waits in the triggerer for a subscription; its ``watch`` holds the fields of ``SubscriptionWatch``."""

    hook_class = _HOOK
    watch_class = "airflow_provider_mediaops.video.subscription_exists:SubscriptionWatch"


class ExportSubscriptionsTrigger(DatasetTrigger):
    """
    Exports subscriptions in the triggerer; its ``work`` has the fields of ``Export``.

    If the service names a time before which it answers no more, such as the reset of a quota, the export waits until
    then, and holds nothing meanwhile: no file, no connection.
    """

    hook_class = _HOOK
    work_class = "airflow_provider_mediaops.video.export:Export"
    attempt_class = "airflow_provider_mediaops.video.export:ExportAttempt"
    _waits: LongWaits | None = None
    # Whether pages were saved since the last long wait.
    _progressed = False

    async def _items(self, hook: VideoPlatformHook, attempt: ExportAttempt) -> AsyncGenerator[Any, None]:
        client = (await hook.aservice()).client
        async with aclosing(hook.astream(attempt.pages(client))) as pages:
            async for listed in pages:
                yield listed
                self._progressed = True

    def _pause_after(self, error: TemporaryError) -> float | None:
        from airflow_provider_mediaops.progress import duration
        from airflow_provider_mediaops.video.export import LongWaits

        self._waits = self._waits or LongWaits()
        pause = self._waits.pause_after(error, progressed=self._progressed)
        self._progressed = False
        if pause is not None:
            until = datetime.now(timezone.utc) + timedelta(seconds=pause)
            self.log.info(
                "Waiting in the triggerer until %s UTC (%s): %s",
                f"{until:%Y-%m-%d %H:%M:%S}",
                duration(pause),
                error.message,
            )
        return pause
