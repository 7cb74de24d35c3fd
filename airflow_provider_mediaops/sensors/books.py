"""The sensor of the book database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_mediaops.sensors.base import ServiceSensor


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

    conn_id_field = "books_conn_id"
    watch_class = "airflow_provider_mediaops.books.book_exists:BookWatch"
    watch_fields = ("isbn",)
    trigger_class = "airflow_provider_mediaops.triggers.books:BookTrigger"
    template_fields: Sequence[str] = ("isbn", "books_conn_id")

    def __init__(self, *, isbn: str, books_conn_id: str = "mediaops_books_default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.isbn = isbn
        self.books_conn_id = books_conn_id
        self._check_known()
