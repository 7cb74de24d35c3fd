"""The rows of a list, as they are given."""

from __future__ import annotations

from decimal import Decimal

import pytest

from airflow_provider_mediaops.books.batch.rows import IsbnRow
from tests.unit.book_database import CRIME


@pytest.mark.parametrize(
    ("value", "row"),
    [
        ("0-14-044913-2", IsbnRow("0-14-044913-2", CRIME)),
        (int(CRIME), IsbnRow(CRIME, CRIME)),
        (float(CRIME), IsbnRow(CRIME, CRIME)),
        (Decimal(CRIME), IsbnRow(CRIME, CRIME)),
        (CRIME.encode(), IsbnRow(CRIME, CRIME)),
        (float("nan"), IsbnRow("nan", None)),
        (
            float("inf"),
            IsbnRow("inf", None, "'inf' is no ISBN: 'I' does not belong in one.", "'I' does not belong in one"),
        ),
        ([CRIME], IsbnRow(f'["{CRIME}"]', CRIME)),
        (True, IsbnRow("true", None, "'true' is no ISBN: 'T' does not belong in one.", "'T' does not belong in one")),
        (
            "x",
            IsbnRow(
                "x", None, "'x' is no ISBN: it must have 10 or 13 digits, not 1.", "it must have 10 or 13 digits, not 1"
            ),
        ),
        (None, IsbnRow("", None)),
    ],
)
def test_a_row_has_its_text_and_its_isbn_or_what_is_wrong(value: object, row: IsbnRow) -> None:
    assert IsbnRow.of(value) == row._replace(number=1)
