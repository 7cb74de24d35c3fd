"""Read the head of a capture's JSON file: when and why it was taken, and which tasks ran, without the nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cluster.plain_values import mapping_of, text_of
from airflow_provider_mediaops.iso_times import read_iso_time

if TYPE_CHECKING:
    from datetime import datetime

_DECODER = json.JSONDecoder()
_BLANKS = " \t\r\n"
# What follows may take megabytes.
_AFTER_THE_HEAD = frozenset({"statistics", "kinds", "nodes", "unparsed", "digest"})


@dataclass(frozen=True, slots=True)
class JsonHead:
    """
    The first values of a JSON file.

    :param values: the values by name, in their order; None for the one after the head, which is not read, and for one
        that is cut.
    :param is_cut: whether the text ends within the head.
    """

    values: dict[str, Any] = field(default_factory=dict)
    is_cut: bool = False

    @property
    def taken(self) -> datetime | None:
        """When the capture was taken; None if it is unknown."""
        return read_iso_time(mapping_of(self.values.get("capture")).get("taken"))

    @property
    def reason(self) -> str | None:
        """Why it was taken, in one word; None if it is unknown."""
        return text_of(mapping_of(self.values.get("capture")).get("reason"))

    def is_cut_in(self, name: str) -> bool:
        """Return whether a value is there, and does not end within the text."""
        return self.is_cut and name in self.values and self.values[name] is None


def read_head(start: str) -> JsonHead:
    """
    Read the values before ``statistics``, ``kinds`` and ``nodes``.

    Nothing is raised: what is not understood is left out.
    """
    values: dict[str, Any] = {}
    position = start.find("{") + 1
    while position:
        name, position = _value_at(start, position)
        if not isinstance(name, str) or not position:
            return JsonHead(values, is_cut=True)
        values[name] = None
        position = _skip(start, position, ":")
        if name in _AFTER_THE_HEAD or not position:
            break
        values[name], position = _value_at(start, position)
        if not position:
            return JsonHead(values, is_cut=True)
        position = _skip(start, position, ",")
    return JsonHead(values)


def _value_at(text: str, position: int) -> tuple[Any, int]:
    """Return a value and the position behind it; 0 if the text ends before, or it is no value."""
    try:
        return _DECODER.raw_decode(text, _skip_blanks(text, position))
    except (ValueError, RecursionError):
        return None, 0


def _skip(text: str, position: int, sign: str) -> int:
    """Return the position behind a sign; 0 if another one stands there."""
    position = _skip_blanks(text, position)
    return position + 1 if text.startswith(sign, position) else 0


def _skip_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANKS:
        position += 1
    return position
