"""Read the head of a capture's JSON file: when and why it was taken, and which tasks ran, without the nodes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_provider_mediaops.cluster.plain_values import mapping_of, text_of
from airflow_provider_mediaops.iso_times import read_iso_time

_DECODER = json.JSONDecoder()
# Up to the value. A name has a bound: what somebody else wrote may be megabytes.
_NAME = re.compile(r'\s*[{,]\s*"((?:[^"\\]|\\.){0,200})"\s*:\s*')
# What follows may take megabytes.
_AFTER_THE_HEAD = frozenset({"statistics", "kinds", "nodes", "unparsed", "digest"})


@dataclass(frozen=True, slots=True)
class JsonHead:
    """The first values of a JSON file."""

    # In their order; None for the one after the head, which is not read, and for one that is cut.
    values: dict[str, Any] = field(default_factory=dict)
    cut: str | None = None  # the name of the value that does not end within the text

    @property
    def taken(self) -> datetime | None:
        """When the capture was taken; None if it is unknown."""
        return read_iso_time(mapping_of(self.values.get("capture")).get("taken"))

    @property
    def reason(self) -> str | None:
        """Why it was taken, in one word; None if it is unknown."""
        return text_of(mapping_of(self.values.get("capture")).get("reason"))


def read_head(start: str) -> JsonHead:
    """
    Read the values before ``statistics``, ``kinds`` and ``nodes``.

    Nothing is raised: what is not understood is left out.
    """
    values: dict[str, Any] = {}
    position = start.find("{")
    while position >= 0 and (named := _NAME.match(start, position)):
        name = named[1]
        values[name] = None
        if name in _AFTER_THE_HEAD:
            break
        try:
            values[name], position = _DECODER.raw_decode(start, named.end())
        except (ValueError, RecursionError):
            return JsonHead(values, cut=name)
    return JsonHead(values)
