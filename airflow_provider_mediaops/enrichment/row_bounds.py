"""Read a bound of rows, such as that of those that may fail: a number, a share of the list, or all."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Literal

from airflow_provider_mediaops.arguments import read_whole_number, refused
from airflow_provider_mediaops.exceptions import InvalidArgumentError

#: A number of rows; a share of all rows, from 0 to 1; or all rows.
RowBound = int | Decimal | Literal["all"]

_RULE = "is a number of rows, a share such as '5%' or 0.05, or 'all'"
_WHOLE = re.compile(r"\d{1,18}", re.ASCII)
_DECIMAL = re.compile(r"\d{0,18}\.\d{1,18}", re.ASCII)
_PERCENT = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*%", re.ASCII)


def read_row_bound(name: str, value: object) -> RowBound:
    """Read an argument that bounds the rows of a kind."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise refused(name, value, _RULE)
    if isinstance(value, int):
        if value < 0:
            raise refused(name, value, _RULE)
        return read_whole_number(name, value)
    text = value.strip().lower() if isinstance(value, str) else f"{Decimal(repr(value)):f}"
    if text == "all":
        return "all"
    if _WHOLE.fullmatch(text):
        return int(text)
    if percent := _PERCENT.fullmatch(text):
        return _share(name, Decimal(percent[1]) / 100, value)
    if not _DECIMAL.fullmatch(text):
        raise refused(name, value, _RULE)
    return _share(name, Decimal(text), value)


def _share(name: str, share: Decimal, value: object) -> Decimal:
    if share < 1 or (share == 1 and isinstance(value, str) and "%" in value):
        return share
    if isinstance(value, str) and "%" in value:
        raise InvalidArgumentError(f"{name} is a share of at most 100%; not {value!r}. Use 'all' for no bound.")
    rows = "1 row, or 'all' for every row" if share == 1 else f"{share:f} percent, or {round(share)} for that many rows"
    mend = f"Write 1 for {rows}." if share == 1 else f"Write '{share.normalize():f}%' for {rows}."
    raise InvalidArgumentError(f"{name} {_RULE}; {value!r} is neither. {mend}")


def allowed_rows(bound: RowBound, total: int) -> int:
    """Return how many rows of a list are within a bound."""
    if bound == "all":
        return total
    return bound if isinstance(bound, int) else int(bound * total)
