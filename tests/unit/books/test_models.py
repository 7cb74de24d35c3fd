from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.books.models import Book
from tests.unit.book_database import CRIME

PROPERTIES = [name for name, value in vars(Book).items() if isinstance(value, property)]
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
json_values = st.recursive(plain, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


@pytest.mark.parametrize(
    ("name", "record", "value"),
    [
        ("isbn13", {"isbn": CRIME}, CRIME),
        ("isbn13", {"isbn": "0140449132"}, None),
        ("isbn13", {"isbn13": 9780140449136}, CRIME),
        ("title", {"title": " A Calendar\0 "}, "A Calendar"),
        ("title", {"title": ""}, None),
        ("title", {"title": 1984}, "1984"),
        ("title", {"title": ["A", "B"]}, "A"),
        ("authors", {"authors": ["A", None, "B", ""]}, ["A", "B"]),
        ("authors", {"authors": {"0": "A", "1": "B"}}, ["A", "B"]),
        ("authors", {}, []),
        ("dewey_decimal", {"dewey_decimal": "823/.914"}, ["823/.914"]),
        ("dewey_decimal", {"dewey_decimal": ["[Fic]", 823.914]}, ["[Fic]", "823.914"]),
        ("dimensions", {"dimensions": ["Height: 6 Inches", "Width"]}, ["Height: 6 Inches", "Width"]),
        ("dimensions", {"dimensions": "97 p."}, ["97 p."]),
        ("pages", {"pages": "8"}, 8),
        ("pages", {"pages": "viii, 8"}, None),
        ("pages", {"pages": -1}, None),
        ("pages", {"pages": True}, None),
        ("msrp", {"msrp": "0.00"}, 0.0),
        ("msrp", {"msrp": "$1.99"}, None),
        ("msrp", {"msrp": "nan"}, None),
        ("date_published", {"date_published": 2003}, "2003"),
        ("date_published", {"date_published": "2003-04"}, "2003-04"),
        ("date_published", {"date_published": "1999-06-02t00:00:01z"}, "1999-06-02"),
        ("date_published", {"date_published": "-"}, None),
        ("date_published", {}, None),
    ],
)
def test_a_field_is_read_whatever_its_type(name: str, record: dict[str, Any], value: object) -> None:
    assert getattr(Book(record), name) == value


@pytest.mark.long
@given(st.dictionaries(st.sampled_from([*PROPERTIES, "isbn"]), json_values))
def test_no_record_makes_a_property_raise(record: dict[str, Any]) -> None:
    book = Book(record)

    for name in PROPERTIES:
        getattr(book, name)
    assert book.record is record


def test_recorded_records_are_read(data: Path) -> None:
    lines = (data / "books" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    books = [Book(json.loads(line)["book"]) for line in lines]

    assert [book.isbn13 for book in books][:3] == ["9780441478125", "9784101010137", "9780198526636"]
    assert [book.date_published for book in books] == ["1987", None, "2001", "1995-09-27", None]
    assert [book.authors for book in books][1:3] == [["夏目 漱石 ~autofilled~"], ["Gauss, C.", "Noether, E."]]
    assert [book.msrp for book in books] == [0.0, None, 2.5, None, None]
    assert [book.title for book in books][2] == "An Almanac"
