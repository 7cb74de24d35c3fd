"""The sensor of the book database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.sensors.base import ServiceSensor
from airflow_provider_mediaops.task_failure import constructing, is_templated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_mediaops.books.book_exists import BookWatch
    from airflow_provider_mediaops.hooks.books import BookDatabaseHook
    from airflow_provider_mediaops.triggers.books import BookTrigger


class BookSensor(ServiceSensor):
    """
    Wait until the book database has a record of a book, and return the record as it came.

    The largest fields of a record above 32 kB are left out, because the result of a sensor goes into Airflow's metadata
    database. A connection that turns out to be wrong fails the task, instead of looking like a missing book.

    :param isbn: the ISBN in any usual writing.
    :param books_conn_id: the connection's id.
    :param kwargs: those of :class:`~airflow_provider_mediaops.sensors.base.ServiceSensor`.
    :raises InvalidIsbnError: if the text is not the ISBN of a book, unless it is templated.
    """

    template_fields: Sequence[str] = ("isbn", "conn_id")

    def __init__(self, *, isbn: str, books_conn_id: str = "mediaops_books_default", **kwargs: Any) -> None:
        super().__init__(conn_id=books_conn_id, **kwargs)
        self.isbn = isbn
        with constructing(self, kwargs):
            if not is_templated(isbn):
                self.make_watch()

    def make_hook(self) -> BookDatabaseHook:
        """Make the hook of the connection."""
        from airflow_provider_mediaops.hooks.books import BookDatabaseHook

        return BookDatabaseHook(self.conn_id)

    def make_watch(self) -> BookWatch:
        """Make the watch from the rendered arguments."""
        from airflow_provider_mediaops.books.book_exists import BookWatch

        return BookWatch(self.isbn)

    def make_trigger(self, began: float, pause: float) -> BookTrigger:
        """Make the trigger that waits in this sensor's place; see :meth:`trigger_arguments`."""
        from airflow_provider_mediaops.triggers.books import BookTrigger

        return BookTrigger(**self.trigger_arguments(began, pause))
