"""Call the three services from tasks of your own."""

from __future__ import annotations

from airflow.sdk import dag, task

from airflow_provider_mediaops.hooks.books import BookDatabaseHook
from airflow_provider_mediaops.hooks.cluster import SearchClusterHook
from airflow_provider_mediaops.hooks.video import VideoPlatformHook


@task
def followed() -> list[str]:
    """Return the channels that the user has subscribed to."""
    with VideoPlatformHook() as hook:
        return [each.channel_id for each in hook.iter_subscriptions(mine=True) if each.channel_id]


@task
def titles(isbns: list[str]) -> dict[str, str | None]:
    """Return the titles of books; a book without a record has none."""
    with BookDatabaseHook() as hook:
        return {each.input: each.book.title if each.book else None for each in hook.books(isbns)}


@task
def busiest_thread() -> str:
    """Return the name of the thread that uses most of the search cluster's CPU right now."""
    with SearchClusterHook() as hook:
        report = hook.hot_threads_report(threads=1)
    threads = [thread for node in report.nodes for thread in node.threads]
    hottest = max(threads, key=lambda thread: thread.cpu_percent or 0.0, default=None)
    return (hottest.name if hottest else None) or "none"


@task
def post(channels: list[str], books: dict[str, str | None], thread: str) -> str | None:
    """Post one bulletin about all of it, and return its id."""
    with VideoPlatformHook() as hook:
        text = f"{len(channels)} channels, {len(books)} books, and {thread} is busy."
        return hook.post_bulletin(text).id


@dag(schedule=None, default_args={"retries": 3})
def with_hooks() -> None:
    """Ask the three services, and post what they said."""
    isbns = ["978-0-14-044913-6", "0-306-40615-2"]
    post(followed(), titles(isbns), busiest_thread())


with_hooks()
