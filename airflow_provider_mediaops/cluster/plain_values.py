"""Read values of a JSON document leniently: versions of a cluster differ in the figures that they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, TypeVar, cast

T = TypeVar("T")

# Figures of a cluster are lower; anything from here on is a fault. A container may have used cores for years, in
# nanoseconds; integers of databases and of metrics end a little above.
_HIGHEST = 9e18


def number_of(value: object) -> float | None:
    """Return a number; None for another type, for NaN, and for one that is too large."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # The comparison is false for NaN, too.
    return float(value) if abs(value) < _HIGHEST else None


def figure_at(value: object, *path: str) -> float | None:
    """Return a figure of a cluster; None for no number, for one too large, and below zero, which means unknown."""
    number = number_of(value_at(value, *path))
    return number if number is not None and number >= 0 else None


def text_of(value: object) -> str | None:
    """Return a text; None for another type, and for an empty one."""
    return value if isinstance(value, str) and value else None


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return an object of JSON; an empty one for another type."""
    return value if isinstance(value, Mapping) else {}


def value_at(value: object, *path: str) -> Any:
    """Return what objects of JSON hold under these names, one within the other; None if there is nothing."""
    for name in path:
        value = mapping_of(value).get(name)
    return value


def mapping_at(value: object, *path: str) -> Mapping[str, Any]:
    """Return an object of JSON within others; an empty one if there is none."""
    return mapping_of(value_at(value, *path))


def list_of(value: object) -> list[Any]:
    """Return a list; an empty one for another type."""
    return value if isinstance(value, list) else []


class Part:
    """A dataclass that can be written as JSON."""

    __slots__ = ()
    # Properties that JSON has, too, and fields that it has not.
    _computed: ClassVar[tuple[str, ...]] = ()
    _left_out: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the values of this part and of the parts in it, ready for `json.dumps`."""
        names = [item.name for item in fields(cast("Any", self)) if item.name not in self._left_out]
        return {name: _plain(getattr(self, name)) for name in [*self._computed, *names]}


def _plain(value: object) -> object:
    if isinstance(value, Part):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def converted(value: object, to: type[T]) -> T:
    """
    Return a dataclass of what this provider wrote in plain values.

    Raise ValueError if it is something else, or holds a figure that is too large, or a count below zero.
    """
    import msgspec

    try:
        result = msgspec.convert(value, to)
    except msgspec.ValidationError as error:
        # In older versions it is none itself.
        raise ValueError(str(error)) from error
    _check_figures(msgspec.to_builtins(result))
    return result


def _check_figures(value: object) -> None:
    if isinstance(value, (int, float)):
        # A percentage may be below zero; whole numbers are counts. The comparison is false for NaN, too.
        lowest = 0 if isinstance(value, int) else -_HIGHEST
        if not lowest <= value < _HIGHEST:
            raise ValueError("a figure in it is too large, or a count is below zero")
    elif isinstance(value, (dict, tuple)):
        for each in value.values() if isinstance(value, dict) else value:
            if not isinstance(each, str):
                _check_figures(each)
