"""The book database's records: invented around a few well-known ISBNs, and as uneven as the real ones."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.sandbox.books.isbn import GENERATED_PREFIX, isbn10_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class _Facts:
    title: str
    authors: tuple[str, ...]
    publisher: str
    year: int


_KNOWN = {
    "9780131103627": _Facts(
        "The C Programming Language", ("Kernighan, Brian W.", "Ritchie, Dennis M."), "Prentice Hall", 1988
    ),
    "9780132350884": _Facts("Clean Code", ("Martin, Robert C.",), "Prentice Hall", 2008),
    "9780140449136": _Facts("Crime and Punishment", ("Dostoyevsky, Fyodor",), "Penguin Classics", 2003),
    "9780141439518": _Facts("Pride and Prejudice", ("Austen, Jane",), "Penguin Classics", 2002),
    "9780201633610": _Facts(
        "Design Patterns",
        ("Gamma, Erich", "Helm, Richard", "Johnson, Ralph", "Vlissides, John"),
        "Addison-Wesley",
        1994,
    ),
    "9780262033848": _Facts(
        "Introduction to Algorithms", ("Cormen, Thomas H.", "Leiserson, Charles E."), "MIT Press", 2009
    ),
    "9780306406157": _Facts("The ISBN of Examples", ("Example, Ann", "Sample, Bo"), "Sandbox Press", 1980),
    "9780451524935": _Facts("Nineteen Eighty-Four", ("Orwell, George",), "Signet Classics", 1961),
    "9780743273565": _Facts("The Great Gatsby", ("Fitzgerald, F. Scott",), "Scribner", 2004),
    "9783161484100": _Facts("The Other ISBN of Examples", ("Beispiel, Jürgen",), "Sandbox Press", 1999),
}
#: The well-known ISBNs that have a record.
KNOWN_ISBNS = tuple(_KNOWN)

ABSENT = "absent"
#: The forms in which the service writes a field, each with its share of the records in percent.
#: The well-known books have the first form of each.
FORMS: Mapping[str, Mapping[str, int]] = {
    "isbn": {"ISBN-10": 97, "ISBN-13": 3},
    "title": {"text": 99, "text that ends with a NUL byte": 1},
    "title_long": {"text": 95, ABSENT: 5},
    "authors": {"list": 93, "object with numeric keys": 2, "list that holds null": 2, ABSENT: 3},
    "publisher": {"text": 98, ABSENT: 2},
    "language": {"`en`": 92, "`en_US`": 3, "`eng`": 2, ABSENT: 3},
    "binding": {"text": 97, ABSENT: 3},
    "pages": {"number": 93, "text": 3, ABSENT: 4},
    "date_published": {
        "YYYY": 45,
        "YYYY-MM-DD": 40,
        "date and time": 5,
        "YYYY-MM": 4,
        "number": 3,
        "`-`": 1,
        ABSENT: 2,
    },
    "msrp": {"number": 90, "text": 3, "`0`": 2, "`0.00` as text": 2, ABSENT: 3},
    "dewey_decimal": {"text": 90, "list": 3, ABSENT: 7},
    "dimensions": {"text": 92, "list": 3, ABSENT: 5},
    "subjects": {"list": 92, "object with numeric keys": 2, ABSENT: 6},
    "image": {"text": 98, ABSENT: 2},
    "other_isbns": {ABSENT: 95, "list": 5},
}

_SUBJECTS = ("Invention", "Patience", "Weather", "Bridges", "Tea")
_BINDINGS = ("Hardcover", "Paperback", "Mass Market Paperback", "Kindle Edition")


def book(isbn: str) -> dict[str, Any] | None:
    """Return the record of a book by its ISBN-13, or None; its fields have the forms of :data:`FORMS`."""
    if facts := _KNOWN.get(isbn):
        return _record(isbn, facts, {field: next(iter(forms)) for field, forms in FORMS.items()})
    if isbn.startswith(GENERATED_PREFIX):
        return _record(isbn, _generated(int(isbn[:12])), _drawn_forms(isbn))
    return None


def _generated(number: int) -> _Facts:
    return _Facts(
        title=f"A Short History of {_SUBJECTS[number % 5]}, Part {number % 10_000_000 + 1}",
        authors=tuple(f"Author {number * step % 997}, {name}" for step, name in ((1, "Ada"), (7, "Bo"))),
        publisher=f"Sandbox Press {number % 12 + 1}",
        year=1960 + number % 60,
    )


def _drawn_forms(isbn: str) -> dict[str, str]:
    """Draw the form of each field: it looks random and is always the same for one ISBN."""
    digest = hashlib.blake2b(isbn.encode(), digest_size=4 * len(FORMS)).digest()
    return {
        field: _drawn(forms, int.from_bytes(digest[4 * place : 4 * place + 4], "big") % 100)
        for place, (field, forms) in enumerate(FORMS.items())
    }


def _drawn(forms: Mapping[str, int], percent: int) -> str:
    for form, share in forms.items():
        if percent < share:
            return form
        percent -= share
    raise AssertionError(f"The shares of {list(forms)} do not add up to 100.")


def _record(isbn: str, facts: _Facts, forms: Mapping[str, str]) -> dict[str, Any]:
    number = int(isbn[:12])
    pages, price = number % 900 + 20, f"{number % 40 + 4}.{number % 100:02d}"
    sizes = ["Height: 7.8 Inches", "Width: 5.1 Inches"]
    subjects = _SUBJECTS[: number % 4 + 1]
    written = {
        "isbn": {"ISBN-10": isbn10_of(isbn), "ISBN-13": isbn},
        "title": {"text": facts.title, "text that ends with a NUL byte": f"{facts.title}\0"},
        "title_long": {"text": f"{facts.title} ({facts.publisher})"},
        "authors": {**_as_lists(facts.authors), "list that holds null": [*facts.authors, None]},
        "publisher": {"text": facts.publisher},
        "language": {"`en`": "en", "`en_US`": "en_US", "`eng`": "eng"},
        "binding": {"text": _BINDINGS[number % len(_BINDINGS)]},
        "pages": {"number": pages, "text": str(pages)},
        "date_published": _dates(number, facts.year),
        "msrp": {"number": float(price), "text": price, "`0`": 0, "`0.00` as text": "0.00"},
        "dewey_decimal": {"text": "823.914", "list": ["823.914", "[Fic]"]},
        "dimensions": {"text": ", ".join(sizes), "list": sizes},
        "subjects": _as_lists(subjects),
        "image": {"text": f"https://images.sandbox.example/books/{isbn}.jpg"},
        "other_isbns": {"list": [{"isbn": isbn, "binding": "Audio CD"}]},
    }
    present = {field: values[forms[field]] for field, values in written.items() if forms[field] != ABSENT}
    return {"isbn13": isbn, **present}


def _dates(number: int, year: int) -> dict[str, int | str]:
    day = f"{year}-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
    return {
        "YYYY": str(year),
        "YYYY-MM-DD": day,
        "date and time": f"{day}T00:00:01Z",
        "YYYY-MM": day[:7],
        "number": year,
        "`-`": "-",
    }


def _as_lists(values: tuple[str, ...]) -> dict[str, Any]:
    """Write a list in the two ways in which the service does."""
    return {
        "list": list(values),
        "object with numeric keys": {str(place): value for place, value in enumerate(values)},
    }
