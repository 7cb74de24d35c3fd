"""What the notifiers share: their failure is told in the log, and never becomes that of the run."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseNotifier

from airflow_provider_mediaops.exceptions import MediaOpsError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from airflow.sdk import Context


class ServiceNotifier(BaseNotifier):
    """
    Does one thing at a service when it is told of an event.

    It serves the ``on_*_callback`` of tasks and DAGs, where Airflow calls it, and deadline alerts, where the triggerer
    awaits it.

    :param context: the event's context, where Airflow gives it beforehand (deadline alerts).
    """

    def __init__(self, *, context: Context | None = None) -> None:
        super().__init__(context)

    @abstractmethod
    def send(self, context: Context) -> None:
        """Do it; raise where it cannot be done."""

    @abstractmethod
    async def asend(self, context: Context) -> None:
        """Do it on the event loop; raise where it cannot be done."""

    def notify(self, context: Context) -> None:
        """Do it, or log why not."""
        with self._only_logging():
            self.send(context)

    async def async_notify(self, context: Context) -> None:
        """Do it on the event loop, or log why not."""
        with self._only_logging():
            await self.asend(context)

    def __call__(self, *args: Any) -> None:
        """Render the templates and do it, or log why not; Airflow calls this."""
        # Airflow renders templates in place, and one notifier may serve many tasks: each event has its own copy.
        with self._only_logging():
            super(ServiceNotifier, copy(self)).__call__(*args)

    def __await__(self) -> Generator[Any, Any, None]:
        with self._only_logging():
            return super().__await__()
        return self._nothing().__await__()

    async def _nothing(self) -> None:
        """Be awaited in place of what could not be begun."""

    @contextmanager
    def _only_logging(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            expected = isinstance(error, (MediaOpsError, ValueError, OSError))
            self.log.error(  # noqa: TRY400 - a traceback helps only where the sentence does not
                "%s failed, and the run goes on: %s: %s",
                type(self).__name__,
                type(error).__name__,
                error,
                exc_info=not expected,
            )
