"""The books' records and the supply of ISBNs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import ean
from stdnum import isbn as oracle

from airflow_provider_mediaops.sandbox.books.catalogue import KNOWN_ISBNS, book
from airflow_provider_mediaops.sandbox.books.isbn import is_isbn13, isbn10_of, sample_isbns


def records(count: int = 500) -> list[dict[str, Any]]:
    return [record for isbn in sample_isbns(count) if (record := book(isbn))]


def test_every_sample_has_a_record_of_its_own() -> None:
    isbns = sample_isbns(5_000)

    assert len(set(isbns)) == 5_000
    assert all(isbn.startswith("97800") and oracle.is_valid(isbn) for isbn in isbns)
    assert isbns[:10] == sample_isbns(10)
    assert [record["isbn13"] for record in records()] == isbns[:500]


@pytest.mark.parametrize("count", [-1, 10_000_001])
def test_the_supply_has_an_end(count: int) -> None:
    with pytest.raises(ValueError, match="10,000,000"):
        sample_isbns(count)


@pytest.mark.parametrize("isbn", KNOWN_ISBNS)
def test_well_known_isbns_are_valid_and_have_a_record(isbn: str) -> None:
    record = book(isbn)

    assert is_isbn13(isbn)
    assert record is not None
    assert record["isbn13"] == isbn


def test_a_record_is_always_the_same() -> None:
    assert records(50) == records(50)


def test_others_have_none() -> None:
    assert book("9791090000025") is None


@pytest.mark.parametrize(
    ("field", "types"),
    [
        ("msrp", {float, int, str, None}),
        ("date_published", {int, str, None}),
        ("dewey_decimal", {str, list, None}),
        ("authors", {list, dict, None}),
        ("subjects", {list, dict, None}),
        ("pages", {int, str, None}),
        ("dimensions", {str, list, None}),
    ],
)
def test_the_types_of_fields_drift(field: str, types: set[type | None]) -> None:
    assert {type(record[field]) if field in record else None for record in records()} == types


def test_the_oddities_of_the_real_records_are_there() -> None:
    made = records()

    assert {len(record["isbn"]) for record in made} == {10, 13}
    assert any(None in record["authors"] for record in made if isinstance(record.get("authors"), list))
    assert any("\0" in record["title"] for record in made)
    assert any("other_isbns" in record for record in made)
    dates = {str(record["date_published"]) for record in made if "date_published" in record}
    assert {len(date) for date in dates} == {1, 4, 7, 10, 20}
    assert "-" in dates


@given(st.one_of(st.from_regex("97[89][0-9]{10}", fullmatch=True), st.text(max_size=14)))
def test_validity_is_that_of_the_standard(text: str) -> None:
    is_book = len(text) == 13 and text.isascii() and text.isdigit() and text[:3] in ("978", "979")
    assert is_isbn13(text) == (is_book and text[3:4] + text[2] != "09" and oracle.is_valid(text))


@given(st.integers(0, 9_999_999))
def test_the_old_isbn_is_that_of_the_standard(number: int) -> None:
    isbn13 = "97800" + f"{number:07d}" + ean.calc_check_digit(f"97800{number:07d}")

    assert isbn10_of(isbn13) == oracle.to_isbn10(isbn13)
