"""Base class of the notifiers: a failure is logged, and never fails the run."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from airflow_provider_mediaops.exceptions import MediaOpsError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from airflow.sdk import Context


class ServiceNotifier(BaseNotifier):
    """
    Base class for notifiers that call a service when a task or a run ends.

    It serves the ``on_*_callback`` of tasks and DAGs, which Airflow calls, and deadline alerts, which the triggerer
    awaits it.

    :param context: the event's context, if Airflow gives it beforehand (deadline alerts).
    """

    def __init__(self, *, context: Context | None = None) -> None:
        super().__init__(context)

    @abstractmethod
    def send(self, context: Context) -> None:
        """Call the service; raise if that fails."""

    @abstractmethod
    async def asend(self, context: Context) -> None:
        """Call the service on the event loop; raise if that fails."""

    def notify(self, context: Context) -> None:
        """Call the service, or log why that failed."""
        with self._only_logging():
            self.send(context)

    async def async_notify(self, context: Context) -> None:
        """Call the service on the event loop, or log why that failed."""
        with self._only_logging():
            await self.asend(context)

    def __call__(self, *args: Any) -> None:
        """Render the templates and call the service, or log why that failed; Airflow calls this."""
        # Airflow renders templates in place, and one notifier may serve many tasks: each event has its own copy.
        with self._only_logging():
            super(ServiceNotifier, copy(self)).__call__(*args)

    def __await__(self) -> Generator[Any, Any, None]:
        with self._only_logging():
            return super().__await__()
        return self._nothing().__await__()

    async def _nothing(self) -> None:
        """Do nothing, in place of a notification that could not begin."""

    @contextmanager
    def _only_logging(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            expected = isinstance(error, (MediaOpsError, ValueError, OSError))
            self.log.error(  # noqa: TRY400 - a traceback helps only if the sentence does not
                "%s failed, and the run goes on: %s: %s",
                type(self).__name__,
                type(error).__name__,
                error,
                exc_info=not expected,
            )
