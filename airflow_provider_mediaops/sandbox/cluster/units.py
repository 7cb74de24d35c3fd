"""Times and sizes as the cluster reads and writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NANOS = {
    "d": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "micros": 1_000,
    "nanos": 1,
}
_TIME = re.compile(r"(.*?)\s*(nanos|micros|ms|s|m|h|d)", re.IGNORECASE)
_LARGEST_LONG = 2**63 - 1
_BYTES = {"gb": 1 << 30, "mb": 1 << 20, "kb": 1 << 10, "b": 1}


def nanoseconds(text: str) -> int | None:
    """
    Read a time as the cluster takes it: a whole number and a unit, zeros without one, or ``-1``.

    :param text: such as ``500ms``.
    :returns: nanoseconds; below zero for ``-1`` with any unit or none; None if it is no such time.
    """
    if re.fullmatch("0+", text.strip()):
        return 0
    if text.strip() == "-1":
        return -1
    number, unit = number_and_unit(text) or ("", "")
    if not re.fullmatch(r"[+-]?\d+", number) or not -1 <= int(number) <= _LARGEST_LONG:
        return None
    return int(number) * _NANOS[unit]


def number_and_unit(text: str) -> tuple[str, str] | None:
    """
    Split a time before its unit.

    :param text: such as ``500ms``.
    :returns: what should be a number, and the unit; None if there is no unit.
    """
    match = _TIME.fullmatch(text.strip())
    # An M is not a minute: elsewhere, it is a month.
    return None if match is None or match[2] == "M" else (match[1], match[2].lower())


def time_text(nanos: int) -> str:
    """
    Write a time as the cluster does: the largest unit that fits, one decimal cut off, none if it is zero.

    :param nanos: nanoseconds.
    :returns: such as ``455.5micros``.
    """
    return _in_units(nanos, _NANOS) or "0s"


def bytes_text(count: int) -> str:
    """
    Write a number of bytes as the cluster does.

    :param count: bytes.
    :returns: such as ``11.4kb``.
    """
    return _in_units(count, _BYTES) or "0b"


def _in_units(figure: int, units: Mapping[str, int]) -> str | None:
    for suffix, size in units.items():
        if figure >= size:
            whole, tenth = divmod(figure * 10 // size, 10)
            return f"{whole}.{tenth}{suffix}" if tenth else f"{whole}{suffix}"
    return None
