"""Base class for triggers that write a dataset: they resume what an earlier attempt has saved."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow_provider_mediaops.exceptions import DestinationInUseError, TemporaryError
from airflow_provider_mediaops.hooks.threads import import_in_thread, in_thread, to_its_end
from airflow_provider_mediaops.triggers.base import TaskTrigger, reading_row

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from airflow_provider_mediaops.storage.dataset import Dataset, Staging
    from airflow_provider_mediaops.storage.ownership import Owner

T = TypeVar("T")

# A triggerer that was declared dead may still be working, until it learns that its triggers were reassigned.
_HANDOVER_SECONDS = 300.0
_RETRY_SECONDS = 5.0


class DatasetTrigger(TaskTrigger):
    """
    Base class for triggers that write a dataset, and resume it after a restart of the triggerer.

    Results are saved as in a worker, so a later attempt resumes wherever it runs. The event has the summary or a typed
    error. Between two attempts nothing is held: no file, no connection. A trigger that was superseded waits for the
    result of the newer one.
    """

    #: The description of the dataset, and the attempt at it, as ``module:class``.
    work_class: ClassVar[str]
    attempt_class: ClassVar[str]

    def __init__(self, *, conn_id: str, work: dict[str, Any]) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.work = work

    @abstractmethod
    def _items(self, hook: Any, attempt: Any) -> AsyncGenerator[Any, None]:
        """Yield what is left to be fetched, in parts that are saved one by one."""

    async def _result(self) -> dict[str, Any]:
        # In a thread: the first calls import the service's modules, and those that do work to its end.
        await import_in_thread("airflow_provider_mediaops.http.request_threads")
        work_class = await in_thread(partial(resolve_name, self.work_class))
        with reading_row():
            work = work_class(**self.work)
            owner = work.owned_by()
            dataset: Dataset = await to_its_end(work.dataset)
        while True:
            summary = await to_its_end(lambda: dataset.published(owner))
            if summary is not None:
                return summary
            try:
                async with (
                    _entered(dataset.staging(owner)) as staging,
                    _entered(begun(partial(self._attempt, work, staging))) as attempt,
                ):
                    await self._save_all(attempt)
            except DestinationInUseError as error:
                return await self._of_the_newer(dataset, owner, error)
            except TemporaryError as error:
                pause = self._pause_after(error)
                if pause is None:
                    raise
                await asyncio.sleep(pause)
            else:
                self.log.info("%s", attempt.end_line())
                return staging.summary

    def _attempt(self, work: Any, staging: Staging) -> Any:
        return resolve_name(self.attempt_class)(work, staging, self.log.info, self.log.warning)

    async def _save_all(self, attempt: Any) -> None:
        with await in_thread(self._make_hook) as hook:
            async with aclosing(self._items(hook, attempt)) as items:
                async for item in items:
                    await to_its_end(partial(attempt.save, item))

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


@contextmanager
def begun(make: Callable[[], Any]) -> Iterator[Any]:
    """Make an attempt at a dataset; finish it, or abort it after an error."""
    attempt = make()
    try:
        yield attempt
    except BaseException:
        attempt.abort()
        raise
    attempt.finish()


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
