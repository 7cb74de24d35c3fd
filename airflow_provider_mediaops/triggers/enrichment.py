"""The trigger of the operator that enriches ISBN lists: all of its work in the triggerer."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.exceptions import DestinationInUseError, PermanentError
from airflow_provider_mediaops.hooks.threads import import_in_thread, in_thread, to_its_end
from airflow_provider_mediaops.triggers.base import WorkTrigger, reading_row
from airflow_provider_mediaops.triggers.deferral import SETTLED_AFTER_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractContextManager

    from airflow_provider_mediaops.enrichment.attempt import Enrichment
    from airflow_provider_mediaops.storage.dataset import Dataset

T = TypeVar("T")

# A DAG file is parsed without them, and the event loop does not wait for their import.
_RUN_TIME_MODULES = (
    "airflow_provider_mediaops.books.batch.rows",
    "airflow_provider_mediaops.books.batch.runner",
    "airflow_provider_mediaops.enrichment.attempt",
    "airflow_provider_mediaops.hooks.books",
    "airflow_provider_mediaops.storage.source_lines",
)

# A triggerer that was declared dead may still be working, until it learns that its triggers were reassigned.
_HANDOVER_SECONDS = 300.0
_RETRY_SECONDS = 5.0


class EnrichmentTrigger(WorkTrigger):
    """
    Enriches an ISBN list in the triggerer, and resumes there after a restart.

    Results are committed as in a worker, so a later attempt resumes wherever it runs. There is one event, with the
    summary or a typed error. The constructor takes plain values and never raises, because an exception there stops the
    whole triggerer.

    :param conn_id: the connection's id.
    :param enrichment: the fields of ``Enrichment``, plain values.
    :param settled_after: the minimum time from the trigger's start to its event, in seconds.
    """

    def __init__(
        self, *, conn_id: str, enrichment: dict[str, Any], settled_after: float = SETTLED_AFTER_SECONDS
    ) -> None:
        super().__init__(settled_after=settled_after)
        self.conn_id = conn_id
        self.enrichment = enrichment

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which Airflow makes this trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "conn_id": self.conn_id,
            "enrichment": self.enrichment,
            "settled_after": self.settled_after,
        }

    async def _result(self) -> dict[str, Any]:
        await import_in_thread(*_RUN_TIME_MODULES)
        from airflow_provider_mediaops.enrichment.attempt import Enrichment
        from airflow_provider_mediaops.storage.source_lines import InvalidSourceError

        with reading_row():
            enrichment = Enrichment.from_dict(self.enrichment)
            enrichment.owned_by()
            dataset = await to_its_end(enrichment.dataset)
        try:
            return await self._enriched(enrichment, dataset)
        except InvalidSourceError as error:
            raise PermanentError(str(error)) from error

    async def _enriched(self, enrichment: Enrichment, dataset: Dataset) -> dict[str, Any]:
        patience = time.monotonic() + _HANDOVER_SECONDS
        while True:
            summary = await to_its_end(lambda: dataset.published(enrichment.owned_by()))
            if summary is not None:
                return summary
            try:
                return await self._attempt(enrichment, dataset)
            except DestinationInUseError as error:
                if time.monotonic() > patience:
                    raise
                self.log.info("Waiting for the destination: %s", error.message)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _attempt(self, enrichment: Enrichment, dataset: Dataset) -> dict[str, Any]:
        from airflow_provider_mediaops.enrichment.attempt import Attempt
        from airflow_provider_mediaops.hooks.books import BookDatabaseHook

        async with (
            _entered(dataset.staging(enrichment.owned_by())) as staging,
            BookDatabaseHook(self.conn_id) as hook,
        ):
            attempt = await to_its_end(lambda: Attempt(enrichment, staging, self.log.info, self.log.warning))
            batch = hook.alookup_batch(attempt.rows(), attempt.options(), resume=attempt.resume, bulk=enrichment.bulk)
            try:
                client = (await hook.aservice()).client
                await hook.arun(attempt.start(client, hook.plan))
                async with aclosing(batch) as updates:
                    async for update in updates:
                        await to_its_end(lambda: attempt.commit(update))  # noqa: B023 it is waited for
            except BaseException:
                await to_its_end(attempt.abort)
                raise
            line = await to_its_end(attempt.finish)
        self.log.info("%s", line)
        return staging.summary


@asynccontextmanager
async def _entered(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    entering = asyncio.ensure_future(in_thread(manager.__enter__))
    try:
        yield await asyncio.shield(entering)
    except BaseException as error:
        await asyncio.wait([entering])
        if entering.exception():
            raise
        what = (type(error), error, error.__traceback__)
        if not await to_its_end(lambda: manager.__exit__(*what)):
            raise
    else:
        await to_its_end(lambda: manager.__exit__(None, None, None))
