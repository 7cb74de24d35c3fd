"""Parse JSON, and convert values to text."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any


def parse_json(data: bytes) -> Any:
    """
    Parse a JSON document.

    :param data: the document in UTF-8.
    :returns: its value.
    :raises ValueError: if it is not valid JSON, or is nested too deep.
    """
    from pydantic_core import from_json

    try:
        # To look for repeated values takes as long as to parse them; the keys of records do repeat.
        return from_json(data, cache_strings="keys")
    except ValueError:
        # pydantic_core also refuses lone surrogates, which truncated texts may end with, and more than 200 levels of
        # nesting. The standard library reads both.
        try:
            return json.loads(data.decode())
        except RecursionError:
            raise ValueError("it is nested too deep") from None


def text_of(value: object) -> str:
    """
    Convert a value from a list or a table cell to text.

    Many tools store a column of integers with gaps as floats, so a whole number loses its decimal point.

    :param value: the value.
    :returns: the text; nested values as JSON, and an empty text for None.
    """
    if value is None:
        return ""
    if isinstance(value, (float, Decimal)) and math.isfinite(value) and value == int(value):
        return f"{value:.0f}"
    if isinstance(value, (list, dict, bool)):
        return json.dumps(value, default=str)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
