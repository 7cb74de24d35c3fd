"""The rows of a list, as they are given."""

from __future__ import annotations

import itertools
import threading
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.books.batch.rows import Input, InputReader
from tests.unit.book_database import CRIME

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("value", "row"),
    [
        ("0-14-044913-2", Input("0-14-044913-2", CRIME)),
        (int(CRIME), Input(CRIME, CRIME)),
        (float(CRIME), Input(CRIME, CRIME)),
        (Decimal(CRIME), Input(CRIME, CRIME)),
        (CRIME.encode(), Input(CRIME, CRIME)),
        (float("nan"), Input("nan", None, "'nan' is no ISBN: 'N' does not belong in one.")),
        (float("inf"), Input("inf", None, "'inf' is no ISBN: 'I' does not belong in one.")),
        ([CRIME], Input(f'["{CRIME}"]', None, f"'[\"{CRIME}\"]' is no ISBN: '[' does not belong in one.")),
        (True, Input("true", None, "'true' is no ISBN: 'T' does not belong in one.")),
        ("x", Input("x", None, "'x' is no ISBN: it must have 10 or 13 digits, not 1.")),
        (None, Input("", None, "'' is no ISBN: it holds no digits.")),
    ],
)
def test_a_row_has_its_text_and_its_isbn_or_what_is_wrong(value: object, row: Input) -> None:
    assert Input.of(value) == row


def test_a_row_that_is_known_to_be_bad_is_not_read() -> None:
    assert Input.of(CRIME, "Line 3: it is no UTF-8 text.") == Input(CRIME, None, "Line 3: it is no UTF-8 text.")


async def test_a_list_is_read_in_another_thread_and_no_further_than_wanted() -> None:
    read: list[tuple[int, int]] = []

    def rows() -> Iterator[Input]:
        for number in itertools.count():
            read.append((number, threading.get_ident()))
            yield Input.of(str(number))

    reader = InputReader(rows())
    assert [row.text for row in await reader.read(3)] == ["0", "1", "2"]
    assert [row.text for row in await reader.read(2)] == ["3", "4"]

    assert [number for number, _ in read] == [0, 1, 2, 3, 4]
    assert threading.get_ident() not in {thread for _, thread in read}


async def test_the_end_is_fewer_rows_than_wanted() -> None:
    reader = InputReader(map(Input.of, ["1", "2"]))

    assert len(await reader.read(3)) == 2
    assert await reader.read(3) == []


async def test_what_goes_wrong_in_the_list_reaches_its_reader() -> None:
    def rows() -> Iterator[Input]:
        yield Input.of("1")
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await InputReader(rows()).read(2)
