"""Reading JSON texts, those of services and our own, and values as texts."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any


def parse_json(data: bytes) -> Any:
    """
    Read a JSON text, fast where that is possible.

    :param data: the text, in UTF-8.
    :returns: its value.
    :raises ValueError: where it is none.
    """
    import msgspec

    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # The fastest is also the strictest: it takes no NaN, for example.
        return _parse_odd_json(data)


def _parse_odd_json(data: bytes) -> Any:
    import pydantic_core

    try:
        return pydantic_core.from_json(data)
    except ValueError:
        # It refuses an escape that is half of a surrogate pair, which texts cut to a length may end with.
        if rb"\u" not in data:
            raise
        try:
            return json.loads(data)
        except RecursionError:
            raise ValueError("it is nested too deep") from None


def text_of(value: object) -> str:
    """
    Give a value as a text, whichever tool has made it of one: a column of numbers with gaps is one of floats in many.

    :param value: what stands in a list, or in a cell of a table.
    :returns: a whole number without a decimal point, what is nested as JSON, and nothing for None.
    """
    if value is None:
        return ""
    if isinstance(value, (float, Decimal)) and math.isfinite(value) and value == int(value):
        return f"{value:.0f}"
    if isinstance(value, (list, dict, bool)):
        return json.dumps(value, default=str)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
