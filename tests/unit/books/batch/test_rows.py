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
        ([CRIME], IsbnRow(f'["{CRIME}"]', CRIME)),
        (
            True,
            IsbnRow("true", None, "'true' is not an ISBN: 'T' does not belong in one.", "'T' does not belong in one"),
        ),
        (None, IsbnRow("", None)),
    ],
)
def test_a_row_has_its_text_and_its_isbn_or_what_is_wrong(value: object, row: IsbnRow) -> None:
    assert IsbnRow.of(value) == row._replace(number=1)
