"""Read the head of a capture's JSON file: when and why it was taken, and which tasks ran, without the nodes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.plain_values import mapping_of, text_of
from airflow_provider_mediaops.iso_times import read_iso_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

# As a capture is written: no text within it holds the end of a line. What follows may take megabytes.
_AFTER_THE_HEAD = re.compile(r',?\n "(?:statistics|kinds|nodes)": ')
_DIGEST = re.compile(r'\s*\{\s*"digest"\s*:')


@dataclass(frozen=True, slots=True)
class JsonHead:
    """
    The first values of a JSON file.

    :param values: the values by name; that of a digest is not read.
    :param characters: how many characters the values take.
    :param is_whole: whether the text goes to the end of the head.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    characters: int = 0
    is_whole: bool = True

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
    Read the values before ``statistics``, ``kinds`` and ``nodes``; of other JSON, those that there are.

    :param start: the beginning of the file, or all of it.
    """
    if _DIGEST.match(start):
        return JsonHead({"digest": None})
    rest = _AFTER_THE_HEAD.search(start)
    try:
        values = json.loads(f"{start[: rest.start()]}}}" if rest else start)
    except (ValueError, RecursionError):
        return JsonHead(is_whole=False)
    return JsonHead(mapping_of(values), rest.start() if rest else len(start))
