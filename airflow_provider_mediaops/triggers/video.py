"""The triggers of the video platform: of the sensor, and of the operator that exports subscriptions."""

from __future__ import annotations

from contextlib import aclosing
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.hooks.threads import import_in_thread, to_its_end
from airflow_provider_mediaops.triggers.base import WatchTrigger, reading_row
from airflow_provider_mediaops.triggers.dataset import DatasetTrigger

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import TemporaryError
    from airflow_provider_mediaops.storage.dataset import Staging
    from airflow_provider_mediaops.video.export import Export
    from airflow_provider_mediaops.video.long_waits import LongWaits

# A DAG file is parsed without them, and the event loop does not wait for their import.
_RUN_TIME_MODULES = (
    "airflow_provider_mediaops.hooks.video",
    "airflow_provider_mediaops.video.export",
    "airflow_provider_mediaops.video.long_waits",
)


class SubscriptionTrigger(WatchTrigger):
    """Waits in the triggerer for a subscription; its ``watch`` holds the fields of ``SubscriptionWatch``."""

    hook_class = "airflow_provider_mediaops.hooks.video:VideoPlatformHook"
    watch_class = "airflow_provider_mediaops.video.subscription_exists:SubscriptionWatch"


class ExportSubscriptionsTrigger(DatasetTrigger):
    """
    Exports subscriptions in the triggerer, and resumes there after a restart.

    Pages are saved as in a worker, so a later attempt resumes wherever it runs. If the service names a time before
    which it answers no more, such as the reset of a quota, the export waits until then, and holds nothing meanwhile: no
    file, no connection. There is one event, with the summary or a typed error.
    """

    def __init__(self, *, conn_id: str, export: dict[str, Any]) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.export = export
        self._waits: LongWaits | None = None
        # The pages that were saved since the last long wait.
        self._pages_saved = 0

    async def _result(self) -> dict[str, Any]:
        await import_in_thread(*_RUN_TIME_MODULES)
        from airflow_provider_mediaops.video.export import Export, end_line

        with reading_row():
            export = Export.from_dict(self.export)
            owner = export.owned_by()
            export.listed()
            dataset = await to_its_end(export.dataset)
        summary = await self._written(dataset, owner, partial(self._attempt, export))
        self.log.info("%s", end_line(summary, export.destination))
        return summary

    async def _attempt(self, export: Export, staging: Staging) -> None:
        from airflow_provider_mediaops.hooks.video import VideoPlatformHook
        from airflow_provider_mediaops.video.export import ExportAttempt

        attempt = await to_its_end(lambda: ExportAttempt(export, staging, self.log.info, self.log.warning))
        with VideoPlatformHook(self.conn_id) as hook:
            client = (await hook.aservice()).client
            try:
                async with aclosing(hook.astream(attempt.pages(client))) as pages:
                    async for listed in pages:
                        await to_its_end(partial(attempt.save, listed))
                        self._pages_saved += 1
            except BaseException:
                await to_its_end(attempt.abort)
                raise
        await to_its_end(attempt.finish)

    def _pause_after(self, error: TemporaryError) -> float | None:
        from airflow_provider_mediaops.progress import duration
        from airflow_provider_mediaops.video.long_waits import LongWaits

        self._waits = self._waits or LongWaits()
        pause = self._waits.pause_after(error, progressed=self._pages_saved > 0)
        self._pages_saved = 0
        if pause is not None:
            until = datetime.now(timezone.utc) + timedelta(seconds=pause)
            self.log.info(
                "Waiting in the triggerer until %s UTC (%s): %s",
                f"{until:%Y-%m-%d %H:%M:%S}",
                duration(pause),
                error.message,
            )
        return pause
