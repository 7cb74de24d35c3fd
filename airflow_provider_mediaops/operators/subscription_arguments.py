"""The arguments of an export of subscriptions: one check serves at parse time, and once the templates are rendered."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_provider_mediaops.arguments import read_choice, read_flag, read_identifier, read_path, refused
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.task_failure import is_end_templated

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OnUnchanged = Literal["success", "skip"]
ON_UNCHANGED: tuple[OnUnchanged, ...] = get_args(OnUnchanged)

_SUFFIX = ".jsonl"
_FILTER = ("channel_id", "ids", "mine", "part", "for_channel_ids", "order")


def check_export(given: Mapping[str, Any], is_unknown: Callable[..., bool]) -> dict[str, Any]:
    """Check the arguments that are known; return the values of those that were read, by name."""
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
    values = {name: read(name, given[name]) for name, read in readers.items() if not is_unknown(given[name])}
    _check_changes(given, values, is_unknown)
    SubscriptionQuery.check(filter_of(given), is_unknown)
    destination, format = given["destination"], given["format"]
    if not is_unknown(format) and (format is not None or not is_end_templated(destination)):
        format_of(destination, format)
    return values


def _check_changes(given: Mapping[str, Any], values: Mapping[str, Any], is_unknown: Callable[..., bool]) -> None:
    from airflow_provider_mediaops.storage.path_checks import check_changes_path

    changes = given["changes"]
    known = not is_unknown(given["on_unchanged"], changes, given["if_changed"])
    if known and values["on_unchanged"] == "skip" and changes is None and not values["if_changed"]:
        raise InvalidArgumentError(
            "on_unchanged='skip' needs changes or if_changed=True: without them it is not known whether something has "
            "changed."
        )
    if changes is None or is_unknown(changes):
        return
    path = read_path("changes", changes)
    if "destination" in values:
        if not path.lower().endswith(_SUFFIX):
            raise refused("changes", path, f"ends in {_SUFFIX}: changes are written as JSON lines")
        check_changes_path("changes", path, values["destination"])


def filter_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that select the subscriptions, without those that are left out."""
    return {name: value for name in _FILTER if (value := given[name]) is not None}
