"""Read the arguments of an export of subscriptions: those that are known at parse time, and the rendered ones."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from airflow_provider_mediaops.arguments import read_choice, read_flag, read_identifier, read_path, refused
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.task_failure import is_end_templated, is_templated

if TYPE_CHECKING:
    from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
    from airflow_provider_mediaops.video.arguments import SubscriptionQuery

OnUnchanged = Literal["success", "skip"]
ON_UNCHANGED: tuple[OnUnchanged, ...] = get_args(OnUnchanged)

_SUFFIX = ".jsonl"
_FILTER = ("channel_id", "ids", "mine", "part", "for_channel_ids", "order")


def check_arguments(task: ExportSubscriptionsOperator) -> None:
    """
    Check what is known of the arguments before templates are rendered.

    :raises InvalidArgumentError: for an argument that is known and cannot be used.
    """
    from airflow_provider_mediaops.storage.formats import check_csv_formulas, format_of
    from airflow_provider_mediaops.video.arguments import SubscriptionQuery, read_page_size

    if not is_templated(task.video_conn_id):
        read_identifier("video_conn_id", task.video_conn_id)
    if not is_templated(task.destination):
        read_path("destination", task.destination)
    if not is_templated(task.csv_formulas):
        check_csv_formulas(task.csv_formulas)
    _check_arguments_of_changes(task)
    for flag in ("if_changed", "require_complete"):
        if not is_templated(getattr(task, flag)):
            read_flag(flag, getattr(task, flag))
    if not is_templated(task.page_size):
        read_page_size("page_size", task.page_size, minimum=1)
    SubscriptionQuery.check(filter_of(task), is_templated)
    if not is_templated(task.format) and (task.format is not None or not is_end_templated(task.destination)):
        format_of(task.destination, task.format)


def _check_arguments_of_changes(task: ExportSubscriptionsOperator) -> None:
    if not is_templated(task.on_unchanged):
        read_choice("on_unchanged", task.on_unchanged, ON_UNCHANGED)
    if not any(map(is_templated, (task.on_unchanged, task.changes, task.if_changed))):
        _check_skip(task)
    if task.changes is not None and not is_templated(task.changes):
        path = read_path("changes", task.changes)
        if not is_templated(task.destination):
            _check_changes(path, read_path("destination", task.destination))


def read_changes(task: ExportSubscriptionsOperator) -> str | None:
    """
    Read the rendered arguments of changes, and return the absolute path of the changes, if they are published.

    :raises InvalidArgumentError: for an argument that cannot be used.
    """
    from airflow_provider_mediaops.storage.path_checks import absolute

    task.on_unchanged = cast("OnUnchanged", read_choice("on_unchanged", task.on_unchanged, ON_UNCHANGED))
    _check_skip(task)
    if task.changes is None:
        return None
    task.changes = absolute(read_path("changes", task.changes), "changes", task.log.warning)
    _check_changes(task.changes, str(task.destination))
    return task.changes


def _check_skip(task: ExportSubscriptionsOperator) -> None:
    if task.on_unchanged == "skip" and task.changes is None and not read_flag("if_changed", task.if_changed):
        raise InvalidArgumentError(
            "on_unchanged='skip' needs changes or if_changed=True: without them it is not known whether something has "
            "changed."
        )


def _check_changes(changes: str, destination: str) -> None:
    from airflow_provider_mediaops.storage.path_checks import check_changes_path

    if not changes.lower().endswith(_SUFFIX):
        raise refused("changes", changes, f"ends in {_SUFFIX}: changes are written as JSON lines")
    check_changes_path("changes", changes, destination)


def read_query(task: ExportSubscriptionsOperator) -> SubscriptionQuery:
    """
    Read the rendered arguments, set the connection and the absolute path of the destination, and return the listing.

    :raises InvalidArgumentError: for an argument that cannot be used.
    """
    from airflow_provider_mediaops.storage.path_checks import absolute
    from airflow_provider_mediaops.video.arguments import SubscriptionQuery, read_page_size

    task.video_conn_id = read_identifier("video_conn_id", task.video_conn_id)
    path = read_path("destination", task.destination)
    task.destination = absolute(path, "destination", task.log.warning)
    size = read_page_size("page_size", task.page_size, minimum=1)
    return SubscriptionQuery(**filter_of(task), max_results=size)


def filter_of(task: ExportSubscriptionsOperator) -> dict[str, Any]:
    """Return the arguments that select the subscriptions, without those that are left out."""
    return {name: value for name in _FILTER if (value := getattr(task, name)) is not None}


def parameters_of(task: ExportSubscriptionsOperator, query: SubscriptionQuery) -> dict[str, Any]:
    """Return all arguments that affect the dataset's content."""
    listed = {name: value for name, value in asdict(query).items() if value is not None}
    written = {"format": task.format, "csv_formulas": task.csv_formulas}
    return {**listed, **written, "connection": task.video_conn_id}
