"""The trigger of the book database's sensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.triggers.base import WatchTrigger

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.book_exists import BookWatch
    from airflow_provider_mediaops.hooks.books import BookDatabaseHook


class BookTrigger(WatchTrigger):
    """Waits in the triggerer for a book's record; its ``watch`` has the fields of ``BookWatch``."""

    def _make_hook(self) -> BookDatabaseHook:
        from airflow_provider_mediaops.hooks.books import BookDatabaseHook

        return BookDatabaseHook(self.conn_id)

    def _make_watch(self) -> BookWatch:
        from airflow_provider_mediaops.books.book_exists import BookWatch

        return BookWatch(**self.watch)
