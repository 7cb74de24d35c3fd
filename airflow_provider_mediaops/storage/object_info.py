"""Read the properties of a file as the client of its store (fsspec) returns them. Each client has names of its own."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.iso_times import read_iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# The names for the time of the last write. The first that is present counts.
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
# The names for a property that differs between two versions of a file. The first that is present counts.
# Google has an ETag as well, but only the generation can be the condition of a write.
_TAGS = ("generation", "ETag", "etag", "e_tag", "md5Hash", "md5", "checksum", *_TIMES)


def content_tag(info: Mapping[str, Any]) -> str:
    """Return the tag or checksum of a file's content, else its time; an empty text if the store has none."""
    tag = _first(info, _TAGS)
    return "" if tag is None else str(tag)


def modified_time(info: Mapping[str, Any]) -> float | None:
    """Return the time of a file's last write by the store's clock, in seconds since 1970; None if it is unknown."""
    value = _first(info, _TIMES)
    if isinstance(value, str):
        value = read_iso_time(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    return float(value) if isinstance(value, (int, float)) else None


def _first(info: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the first property that is present; None if none is. Zero is the time of a file of 1970."""
    return next((value for name in names if (value := info.get(name)) not in (None, "")), None)
