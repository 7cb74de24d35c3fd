"""Read the head of a capture's JSON file: when and why it was taken, and which tasks ran, without the nodes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_provider_mediaops.cluster.plain_values import text_of, value_at
from airflow_provider_mediaops.iso_times import read_iso_time

_DECODER = json.JSONDecoder()
# Up to the value. A name has a bound: what somebody else wrote may be megabytes.
_NAME = re.compile(r'\s*[{,]\s*"((?:[^"\\]|\\.){0,200})"\s*:\s*')
# What is behind them may take megabytes.
_HEAD = ("capture", "running_tasks")


@dataclass(frozen=True, slots=True)
class JsonHead:
    """The first values of a JSON file."""

    # In their order; None for one that does not end within the text, and for the first one after the head.
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def taken(self) -> datetime | None:
        """When the capture was taken; None if it is unknown."""
        return read_iso_time(value_at(self.values, "capture", "taken"))

    @property
    def reason(self) -> str | None:
        """Why it was taken, in one word; None if it is unknown."""
        return text_of(value_at(self.values, "capture", "reason"))


def read_head(start: str) -> JsonHead:
    """Read the values before ``statistics``, ``kinds`` and ``nodes``; what is not understood is left out."""
    values: dict[str, Any] = {}
    position = start.find("{")
    while position >= 0 and (named := _NAME.match(start, position)):
        name = named[1]
        values[name] = None
        if name not in _HEAD:
            break
        try:
            values[name], position = _DECODER.raw_decode(start, named.end())
        except (ValueError, RecursionError):
            break
    return JsonHead(values)
