from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_mediaops.enrichment.arguments import allowed_rows, read_row_bound
from airflow_provider_mediaops.exceptions import InvalidArgumentError


@pytest.mark.parametrize(
    ("value", "total", "allowed"),
    [
        (0, 100, 0),
        (3, 1, 3),
        (" 3 ", 100, 3),
        ("5 %", 100, 5),
        ("0.5%", 1_000, 5),
        ("0%", 100, 0),
        ("100%", 7, 7),
        (0.05, 100, 5),
        (".05", 100, 5),
        (0.0, 100, 0),
        # Binary fractions would make 28 and 57 of these.
        (0.29, 100, 29),
        ("58%", 100, 58),
        # Rounded down.
        ("5%", 19, 0),
        ("5%", 39, 1),
        (1e-7, 10**8, 10),
        ("all", 12, 12),
        ("All", 0, 0),
    ],
)
def test_a_bound_is_a_number_a_share_or_all(value: Any, total: int, allowed: int) -> None:
    assert allowed_rows(read_row_bound("max_failures", value), total) == allowed


@pytest.mark.parametrize(
    "value",
    [
        *(True, None, -1, -0.5, "-5%", float("nan"), float("inf"), "nan", "", "1e3", [1], "1" * 30),
        # One row, or all of them? 1.5 %, or two rows?
        *(1.0, "1.0", 1.5, 100.5, "150%"),
    ],
)
def test_anything_else_is_refused_in_words(value: Any) -> None:
    message = r"max_failures is a number of rows, a share such as '5%' or 0\.05, or 'all'; not "

    with pytest.raises(InvalidArgumentError, match=message):
        read_row_bound("max_failures", value)
