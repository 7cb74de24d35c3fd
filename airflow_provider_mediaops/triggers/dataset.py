"""Base class for triggers that write a dataset: they resume what an earlier attempt has saved."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mediaops.exceptions import DestinationInUseError, TemporaryError
from airflow_provider_mediaops.hooks.threads import to_its_end
from airflow_provider_mediaops.triggers.base import TaskTrigger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractContextManager

    from airflow_provider_mediaops.storage.dataset import Dataset, Staging
    from airflow_provider_mediaops.storage.ownership import Owner

T = TypeVar("T")

# A triggerer that was declared dead may still be working, until it learns that its triggers were reassigned.
_HANDOVER_SECONDS = 300.0
_RETRY_SECONDS = 5.0


class DatasetTrigger(TaskTrigger):
    """
    Base class for triggers that write a dataset.

    Results are committed as in a worker, so a later attempt resumes wherever it runs. The event has the summary or a
    typed error.
    """

    async def _written(
        self, dataset: Dataset, owner: Owner, attempt: Callable[[Staging], Awaitable[None]]
    ) -> dict[str, Any]:
        """
        Return the summary of the dataset, after as many attempts as it takes.

        Between two attempts nothing is held: no file, no connection. A trigger that was superseded waits for the result
        of the newer one.
        """
        while True:
            summary = await to_its_end(lambda: dataset.published(owner))
            if summary is not None:
                return summary
            try:
                async with _entered(dataset.staging(owner)) as staging:
                    await attempt(staging)
            except DestinationInUseError as error:
                return await self._of_the_newer(dataset, owner, error)
            except TemporaryError as error:
                pause = self._pause_after(error)
                if pause is None:
                    raise
                await asyncio.sleep(pause)
            else:
                return staging.summary

    async def _of_the_newer(self, dataset: Dataset, owner: Owner, error: DestinationInUseError) -> dict[str, Any]:
        """Return what a newer attempt of this task publishes; its triggerer may have been declared the owner."""
        self.log.info("Waiting for the newer attempt: %s", error.message)
        loop = asyncio.get_running_loop()
        ends = loop.time() + _HANDOVER_SECONDS
        while loop.time() < ends:
            await asyncio.sleep(_RETRY_SECONDS)
            if (summary := await to_its_end(lambda: dataset.published(owner))) is not None:
                return summary
        raise error

    def _pause_after(self, error: TemporaryError) -> float | None:
        """Return the seconds to wait after an attempt that ended with an error; None if the task ends with it."""
        return None


@asynccontextmanager
async def _entered(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    entered: list[T] = []
    try:
        await to_its_end(lambda: entered.append(manager.__enter__()))
        yield entered[0]
    except BaseException as error:
        # Nothing is awaited before the exit: a trigger that is cancelled while it handles an error has to get there.
        if not entered:
            raise
        what = (type(error), error, error.__traceback__)
        if not await to_its_end(lambda: manager.__exit__(*what)):
            raise
    else:
        await to_its_end(lambda: manager.__exit__(None, None, None))
