"""Subscriptions as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_mediaops.storage.formats import FlatView, json_line


def _flatten(item: Mapping[str, Any]) -> dict[str, object]:
    snippet, details = _object(item, "snippet"), _object(item, "contentDetails")
    return {
        "id": item.get("id"),
        "title": snippet.get("title"),
        "channel_id": _object(snippet, "resourceId").get("channelId"),
        "description": snippet.get("description"),
        "published_at": snippet.get("publishedAt"),
        "total_item_count": details.get("totalItemCount"),
        "new_item_count": details.get("newItemCount"),
        "activity_type": details.get("activityType"),
        "record": json_line(item).decode(),
    }


def _object(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}


#: The table of subscriptions (video-platform.md, section 2): the documented fields, and the whole record as JSON.
SUBSCRIPTIONS = FlatView(
    columns={
        "id": str,
        "title": str,
        "channel_id": str,
        "description": str,
        "published_at": str,
        "total_item_count": int,
        "new_item_count": int,
        "activity_type": str,
        "record": str,
    },
    flatten=_flatten,
)
