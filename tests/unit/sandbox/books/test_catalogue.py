"""The books' records and the supply of ISBNs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from stdnum import isbn as oracle

from airflow_provider_mediaops.sandbox.books.catalogue import FORMS, KNOWN_ISBNS, book
from airflow_provider_mediaops.sandbox.books.isbn import as_isbn13, isbn10_of, sample_isbns


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

    assert as_isbn13(isbn) == isbn
    assert record is not None
    assert record["isbn13"] == isbn


def test_a_record_is_always_the_same() -> None:
    assert records(50) == records(50)


def test_others_have_none() -> None:
    assert book("9791090000025") is None


def form_of(field: str, record: dict[str, Any]) -> str:
    """Return the name of the form in which a field is written."""
    value = record.get(field)
    if isinstance(value, str):
        return form_of_text(field, value, record["isbn13"])
    if isinstance(value, dict):
        assert list(value) == [str(place) for place in range(len(value))]
        return "object with numeric keys"
    if isinstance(value, list):
        return "list that holds null" if None in value else "list"
    if value is None:
        return "absent"
    return "`0`" if value == 0 else "number"


def form_of_text(field: str, text: str, isbn13: str) -> str:
    dates = {1: "`-`", 4: "YYYY", 7: "YYYY-MM", 10: "YYYY-MM-DD", 20: "date and time"}
    if field == "date_published":
        return dates[len(text)]
    if field == "isbn":
        return {isbn13: "ISBN-13", isbn10_of(isbn13): "ISBN-10"}[text]
    if field == "language":
        return f"`{text}`"
    if text == "0.00":
        return "`0.00` as text"
    return "text that ends with a NUL byte" if text.endswith("\0") else "text"


def test_records_are_as_odd_as_the_shares_say_and_no_odder() -> None:
    made = records(20_000)

    for field, forms in FORMS.items():
        counted = Counter(form_of(field, record) for record in made)
        assert counted.keys() == forms.keys(), field
        assert {form: round(100 * counted[form] / len(made)) for form in forms} == pytest.approx(forms, abs=1), field
        assert sum(forms.values()) == 100


def test_an_odd_form_is_rare() -> None:
    # The forms of a date are all usual; of any other field the first one is the rule.
    rare = {field: list(forms.values())[1:] for field, forms in FORMS.items() if field != "date_published"}

    assert {share for shares in rare.values() for share in shares} <= set(range(1, 8))


def test_a_well_known_book_has_every_field_in_its_usual_form() -> None:
    for isbn in KNOWN_ISBNS:
        record = book(isbn)
        assert record is not None
        assert all(form_of(field, record) == next(iter(forms)) for field, forms in FORMS.items())
