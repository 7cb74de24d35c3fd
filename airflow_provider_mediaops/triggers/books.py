"""The triggers of the book database: of the sensor, and of the operator that enriches ISBN lists."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.hooks.threads import import_in_thread, to_its_end
from airflow_provider_mediaops.triggers.base import WatchTrigger, reading_row
from airflow_provider_mediaops.triggers.dataset import DatasetTrigger

if TYPE_CHECKING:
    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.storage.dataset import Staging

# A DAG file is parsed without them, and the event loop does not wait for their import.
_RUN_TIME_MODULES = ("airflow_provider_mediaops.enrichment.attempt", "airflow_provider_mediaops.hooks.books")


class BookTrigger(WatchTrigger):
    """Waits in the triggerer for a book's record; its ``watch`` has the fields of ``BookWatch``."""

    hook_class = "airflow_provider_mediaops.hooks.books:BookDatabaseHook"
    watch_class = "airflow_provider_mediaops.books.book_exists:BookWatch"


class EnrichmentTrigger(DatasetTrigger):
    """
    Enriches an ISBN list in the triggerer, and resumes there after a restart.

    Results are committed as in a worker, so a later attempt resumes wherever it runs. There is one event, with the
    summary or a typed error.
    """

    def __init__(self, *, conn_id: str, enrichment: dict[str, Any]) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.enrichment = enrichment

    async def _result(self) -> dict[str, Any]:
        await import_in_thread(*_RUN_TIME_MODULES)
        from airflow_provider_mediaops.enrichment.attempt import Enrichment

        with reading_row():
            enrichment = Enrichment.from_dict(self.enrichment)
            owner = enrichment.owned_by()
            dataset = await to_its_end(enrichment.dataset)
        return await self._written(dataset, owner, partial(self._attempt, enrichment))

    async def _attempt(self, enrichment: Enrichment, staging: Staging) -> None:
        from airflow_provider_mediaops.enrichment.attempt import Attempt
        from airflow_provider_mediaops.hooks.books import BookDatabaseHook

        with BookDatabaseHook(self.conn_id) as hook:
            client = (await hook.aservice()).client
            attempt = await to_its_end(lambda: Attempt(enrichment, staging, self.log.info, self.log.warning))
            batch = hook.alookup_batch(attempt.rows(), attempt.options(), resume=attempt.resume, bulk=enrichment.bulk)
            try:
                await hook.arun(attempt.start(client, hook.plan))
                async with aclosing(batch) as updates:
                    async for update in updates:
                        await to_its_end(partial(attempt.commit, update))
            except BaseException:
                await to_its_end(attempt.abort)
                raise
            line = await to_its_end(attempt.finish)
        self.log.info("%s", line)
