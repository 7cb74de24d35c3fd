"""The triggers of the book database: of the sensor, and of the operator that enriches ISBN lists."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from airflow_provider_mediaops.triggers.base import WatchTrigger
from airflow_provider_mediaops.triggers.dataset import DatasetTrigger

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.batch.runner import BatchUpdate
    from airflow_provider_mediaops.enrichment.attempt import EnrichmentAttempt
    from airflow_provider_mediaops.hooks.books import BookDatabaseHook

_HOOK = "airflow_provider_mediaops.hooks.books:BookDatabaseHook"


class BookTrigger(WatchTrigger):
    """Waits in the triggerer for a book's record; its ``watch`` has the fields of ``BookWatch``."""

    hook_class = _HOOK
    watch_class = "airflow_provider_mediaops.books.book_exists:BookWatch"


class EnrichmentTrigger(DatasetTrigger):
    """Enriches an ISBN list in the triggerer; its ``work`` has the fields of ``Enrichment``."""

    hook_class = _HOOK
    work_class = "airflow_provider_mediaops.enrichment.attempt:Enrichment"
    attempt_class = "airflow_provider_mediaops.enrichment.attempt:EnrichmentAttempt"

    async def _items(self, hook: BookDatabaseHook, attempt: EnrichmentAttempt) -> AsyncGenerator[BatchUpdate, None]:
        client = (await hook.aservice()).client
        await hook.arun(attempt.start(client, hook.plan))
        batch = hook.alookup_batch(attempt.rows(), attempt.options(), resume=attempt.resume, bulk=attempt.bulk)
        async with aclosing(batch) as updates:
            async for update in updates:
                yield update
