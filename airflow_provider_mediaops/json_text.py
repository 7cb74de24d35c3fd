"""Reading JSON texts, those of services and our own."""

from __future__ import annotations

import json
from typing import Any


def parse_json(data: bytes) -> Any:
    """
    Read a JSON text, fast where that is possible.

    :param data: the text, in UTF-8.
    :returns: its value.
    :raises ValueError: where it is none.
    """
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
