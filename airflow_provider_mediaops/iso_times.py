"""Read times in ISO 8601, as stores, JSON files, datasets and people write them."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone


def read_iso_time(text: object) -> datetime | None:
    """Read a text such as ``2026-11-16T00:00:00Z`` as a time in UTC, its zone by default; None for anything else."""
    if not isinstance(text, str):
        return None
    given = text.strip()
    # The first and the last day of the calendar may not exist in UTC.
    with suppress(ValueError, OverflowError):
        # Python reads a final Z only since 3.11.
        moment = datetime.fromisoformat(f"{given[:-1]}+00:00" if given[-1:] in {"Z", "z"} else given)
        return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return None
