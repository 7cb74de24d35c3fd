"""Fail a task of your own at once if another try would meet the same error; Airflow 3.3 or later."""

from __future__ import annotations

from airflow.sdk import dag, task

from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.task_failure import TypedErrorRetryPolicy


@task(retries=3, retry_policy=TypedErrorRetryPolicy())
def title(isbn: str) -> str | None:
    """Return the title of a book: a refused key fails at once, a busy service is asked again."""
    with BookDatabaseHook() as hook:
        return hook.book(isbn).title


@dag(schedule=None)
def with_retry_policy() -> None:
    """Look up one book."""
    title("978-0-14-044913-6")


with_retry_policy()
