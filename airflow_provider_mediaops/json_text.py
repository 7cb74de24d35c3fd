"""Parse JSON, measure it, and convert values to text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

# The standard library writes values of nearly 1,000 levels, less those of Python's stack at that time.
_MAX_DEPTH = 700
_TOO_DEEP = "it is nested too deep"
_NO_CHARACTER = re.compile("[\0\ud800-\udfff]")


def parse_json(data: bytes) -> Any:
    """
    Parse a JSON document in UTF-8; raise ValueError if it is not valid, or is nested too deep.

    So is a number that is too large for a float, such as 1e999. NaN and Infinity are read where they are written as
    such.
    """
    decode, errors = _decoder()
    try:
        value = decode(data)
    except errors:
        # It refuses large numbers, but also NaN and lone surrogates, which truncated texts may end with. The standard
        # library reads those.
        try:
            value = json.loads(data.decode(), parse_float=_finite)
        except RecursionError:
            raise ValueError(_TOO_DEEP) from None
    check_depth(value, data.count(b"{") + data.count(b"["))
    return value


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"it holds a number that is too large: {digits[:20]}")
    return number


def check_depth(value: object, brackets: int) -> None:
    """
    Make sure that a value can be written again, also within another value.

    That takes more of Python's stack than to parse it. To count the brackets that its text opens takes less time than
    to visit all of the value.
    """
    if brackets <= _MAX_DEPTH:
        return
    level: list[object] = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            each
            for outer in level
            for each in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(each, (dict, list))
        ]
    if level:
        raise ValueError(_TOO_DEEP)


@cache
def _decoder() -> tuple[Callable[[bytes], Any], tuple[type[Exception], ...]]:
    """Return msgspec's parser, and the errors that it raises for a document."""
    # An import within a function takes as long as to parse a short record.
    from msgspec import MsgspecError
    from msgspec.json import Decoder

    return Decoder().decode, (MsgspecError, RecursionError)


def text_of(value: object) -> str:
    """
    Convert a value from a list or a table cell to text.

    Many tools store a column of integers with gaps as floats, so a whole number loses its decimal point. Nested values
    become JSON, and None an empty text.
    """
    if value is None:
        return ""
    if isinstance(value, (float, Decimal)) and math.isfinite(value) and value == int(value):
        return f"{value:.0f}"
    if isinstance(value, (list, dict, bool)):
        return json.dumps(value, default=str)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def json_size(value: object) -> int:
    """Return the bytes of a value as JSON with escapes beyond ASCII, as XComs and trigger events are stored."""
    return len(json.dumps(value))


def fitting(entries: Sequence[T], room_bytes: int) -> list[T]:
    """Return the first entries of a list, as many as fit into so many bytes of JSON."""
    left = room_bytes - len("[]")
    for position, entry in enumerate(entries):
        left -= json_size(entry) + (len(", ") if position else 0)
        if left < 0:
            return list(entries[:position])
    return list(entries)


def storable(text: str, longest: int) -> str:
    """
    Cut a text, such as a name that a cluster sent, to so many characters that any database stores.

    U+FFFD takes the place of NUL and of surrogates, which stand for bytes that are not UTF-8.
    """
    return _NO_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text[:longest])
