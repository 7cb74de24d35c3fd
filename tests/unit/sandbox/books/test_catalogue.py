"""The books' records and the supply of ISBNs."""

from __future__ import annotations

from collections import Counter
from types import NoneType
from typing import Any

import pytest
from stdnum import isbn as oracle

from airflow_provider_mediaops.sandbox.books.catalogue import KNOWN_ISBNS, ODDITIES, as_isbn13, book, sample_isbns


def records(count: int = 500) -> list[dict[str, Any]]:
    return [record for isbn in sample_isbns(count) if (record := book(isbn))]


def test_every_sample_has_a_record_of_its_own() -> None:
    isbns = sample_isbns(5_000)

    assert len(set(isbns)) == 5_000
    assert all(isbn.startswith("97800") and oracle.is_valid(isbn) for isbn in isbns)
    assert isbns[:10] == sample_isbns(10)
    assert [record["isbn13"] for record in records()] == isbns[:500]
    assert records(50) == records(50)


@pytest.mark.parametrize("count", [-1, 10_000_001])
def test_the_supply_has_an_end(count: int) -> None:
    with pytest.raises(ValueError, match="10,000,000"):
        sample_isbns(count)


def test_others_have_none() -> None:
    assert book("9791090000025") is None


def test_one_record_in_a_hundred_has_each_oddity_and_the_others_are_usual() -> None:
    (known,) = [record for isbn in KNOWN_ISBNS[:1] if (record := book(isbn))]
    usual = {field: type(value) for field, value in known.items()}
    made = records(200)

    odd = [record for record in made if {field: type(value) for field, value in record.items()} != usual]
    assert len([record for record in made if record["isbn"] == record["isbn13"]]) == 2
    assert len([record for record in made if record["title"].endswith("\0")]) == 2
    assert len([record for record in made if record.get("language") in ("en_US", "eng")]) == 4
    assert Counter(type(record.get("authors")) for record in made) == {list: 196, dict: 2, NoneType: 2}
    assert Counter(type(record.get("msrp")) for record in made) == {float: 194, str: 2, int: 2, NoneType: 2}
    assert {len(str(record.get("date_published"))) for record in made} == {1, 4, 7, 10, 20}
    assert len(odd) < 2 * len(ODDITIES)


def test_well_known_isbns_are_valid_and_have_usual_records() -> None:
    known = [record for isbn in KNOWN_ISBNS if (record := book(isbn))]

    assert [record["isbn13"] for record in known] == list(map(as_isbn13, KNOWN_ISBNS))
    assert len({tuple(map(type, record.values())) for record in known}) == 1
