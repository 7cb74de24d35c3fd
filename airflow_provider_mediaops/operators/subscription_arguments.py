"""The arguments of an export of subscriptions: one check serves at parse time, and once the templates are rendered."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_provider_mediaops.arguments import read_choice, read_flag, read_identifier, read_path, refused
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.task_failure import is_end_templated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_provider_mediaops.operators.video import ExportSubscriptionsOperator
    from airflow_provider_mediaops.video.arguments import SubscriptionQuery

OnUnchanged = Literal["success", "skip"]
ON_UNCHANGED: tuple[OnUnchanged, ...] = get_args(OnUnchanged)

_SUFFIX = ".jsonl"
_FILTER = ("channel_id", "ids", "mine", "part", "for_channel_ids", "order")


def check_arguments(task: ExportSubscriptionsOperator, is_unknown: Callable[..., bool]) -> dict[str, Any]:
    """
    Check the arguments that are known: all but the templated ones at parse time, and all once they are rendered.

    :returns: the values of those that were read, by name.
    """
    from airflow_provider_mediaops.storage.formats import CSV_FORMULAS, format_of
    from airflow_provider_mediaops.video.arguments import SubscriptionQuery, read_page_size

    readers: dict[str, Callable[[str, object], object]] = {
        "video_conn_id": read_identifier,
        "destination": read_path,
        "csv_formulas": partial(read_choice, choices=CSV_FORMULAS),
        "on_unchanged": partial(read_choice, choices=ON_UNCHANGED),
        "if_changed": read_flag,
        "require_complete": read_flag,
        "page_size": partial(read_page_size, minimum=1),
    }
    given = {name: getattr(task, name) for name in readers}
    values = {name: readers[name](name, value) for name, value in given.items() if not is_unknown(value)}
    _check_changes(task, values, is_unknown)
    SubscriptionQuery.check(filter_of(task), is_unknown)
    if not is_unknown(task.format) and (task.format is not None or not is_end_templated(task.destination)):
        format_of(task.destination, task.format)
    return values


def _check_changes(
    task: ExportSubscriptionsOperator, values: Mapping[str, Any], is_unknown: Callable[..., bool]
) -> None:
    from airflow_provider_mediaops.storage.path_checks import check_changes_path

    known = not is_unknown(task.on_unchanged, task.changes, task.if_changed)
    if known and values["on_unchanged"] == "skip" and task.changes is None and not values["if_changed"]:
        raise InvalidArgumentError(
            "on_unchanged='skip' needs changes or if_changed=True: without them it is not known whether something has "
            "changed."
        )
    if task.changes is None or is_unknown(task.changes):
        return
    path = read_path("changes", task.changes)
    if not is_unknown(task.destination):
        if not path.lower().endswith(_SUFFIX):
            raise refused("changes", path, f"ends in {_SUFFIX}: changes are written as JSON lines")
        check_changes_path("changes", path, read_path("destination", task.destination))


def filter_of(task: ExportSubscriptionsOperator) -> dict[str, Any]:
    """Return the arguments that select the subscriptions, without those that are left out."""
    return {name: value for name in _FILTER if (value := getattr(task, name)) is not None}


def parameters_of(task: ExportSubscriptionsOperator, query: SubscriptionQuery) -> dict[str, Any]:
    """Return all arguments that affect the dataset's content."""
    listed = {name: value for name, value in asdict(query).items() if value is not None}
    written = {"format": task.format, "csv_formulas": task.csv_formulas}
    return {**listed, **written, "connection": task.video_conn_id}
