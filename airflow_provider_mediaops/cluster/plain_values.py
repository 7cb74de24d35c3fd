"""Read values of a JSON document leniently: versions of a cluster differ in the figures that they give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

# A larger figure is a fault, and may not fit a float.
_LARGEST = 1e9

#: Figures of a cluster are lower; anything from here on is a fault. A container may have used cores for years, in
#: nanoseconds; integers of databases and of metrics end a little above.
HIGHEST_FIGURE = 9e18


def number_of(value: object, largest: float = _LARGEST) -> float | None:
    """Return a number; None for another type, for NaN, and for one that is too large."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # The comparison is false for NaN, too.
    return float(value) if abs(value) < largest else None


def figure_of(value: object) -> float | None:
    """Return a figure of a cluster; None for no number, for one too large, and below zero, which means unknown."""
    number = number_of(value, HIGHEST_FIGURE)
    return number if number is not None and number >= 0 else None


def text_of(value: object) -> str | None:
    """Return a text; None for another type, and for an empty one."""
    return value if isinstance(value, str) and value else None


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return an object of JSON; an empty one for another type."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: object) -> list[Any]:
    """Return a list; an empty one for another type."""
    return value if isinstance(value, list) else []


def converted(value: object, to: type[T]) -> T:
    """
    Return a dataclass of what this provider wrote in plain values.

    :raises ValueError: if it is something else.
    """
    import msgspec

    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        # In older versions it is none itself.
        raise ValueError(str(error)) from error
