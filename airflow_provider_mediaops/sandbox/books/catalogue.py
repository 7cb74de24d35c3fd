"""The book database's records: invented around a few well-known ISBNs, and as uneven as the real ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_provider_mediaops.sandbox.books.isbn import GENERATED_PREFIX, isbn10_of

Value = TypeVar("Value")


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

_SUBJECTS = ("Invention", "Patience", "Weather", "Bridges", "Tea")
_BINDINGS = ("Hardcover", "Paperback", "Mass Market Paperback", "Kindle Edition")


def book(isbn: str) -> dict[str, Any] | None:
    """Look a book up.

    The types of its fields drift from record to record, as notes on the real service list them: the same field is
    a number here and a string there, a list or an object with numeric keys, and any of them may be absent.

    :param isbn: a valid ISBN-13.
    :returns: its record; None where there is none.
    """
    facts = _KNOWN.get(isbn)
    if facts is None and isbn.startswith(GENERATED_PREFIX):
        facts = _generated(int(isbn[:12]))
    return None if facts is None else _record(isbn, facts)


def _generated(number: int) -> _Facts:
    return _Facts(
        title=f"A Short History of {_SUBJECTS[number % 5]}, Part {number % 10_000_000 + 1}",
        authors=tuple(f"Author {number * step % 997}, {name}" for step, name in ((1, "Ada"), (7, "Bo"))),
        publisher=f"Sandbox Press {number % 12 + 1}",
        year=1960 + number % 60,
    )


def _record(isbn: str, facts: _Facts) -> dict[str, Any]:
    number = int(isbn[:12])
    price = f"{number % 40 + 4}.{number % 100:02d}"
    sizes = ["Height: 7.8 Inches", "Width: 5.1 Inches"]
    record = {
        "isbn13": isbn,
        "isbn": _turn(number, isbn10_of(isbn), isbn),
        "title": facts.title + _turn(number, *[""] * 10, "\0"),
        "title_long": _turn(number, f"{facts.title} ({facts.publisher})", None),
        "authors": _turn(number, *_lists(facts.authors), [*facts.authors, None], None),
        "publisher": facts.publisher,
        "language": _turn(number, "en", "en_US", "eng", None),
        "binding": _turn(number, *_BINDINGS),
        "pages": _turn(number, number % 900 + 20, str(number % 900 + 20), None),
        "date_published": _published(number, facts.year),
        "msrp": _turn(number, float(price), price, 0, "0.00", None),
        "dewey_decimal": _turn(number, "823.914", ["823.914", "[Fic]"], None),
        "dimensions": _turn(number, ", ".join(sizes), sizes, None),
        "subjects": _turn(number // 2, *_lists(_SUBJECTS[: number % 4 + 1]), None),
        "image": f"https://images.sandbox.example/books/{isbn}.jpg",
        "other_isbns": _turn(number, None, [{"isbn": isbn, "binding": "Audio CD"}]),
    }
    # An absent field is absent, not null.
    return {name: value for name, value in record.items() if value is not None}


def _published(number: int, year: int) -> int | str | None:
    day = f"{year}-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
    return _turn(number, year, str(year), day[:7], day, f"{day}T00:00:01Z", "-", None)


def _turn(number: int, *values: Value) -> Value:
    """Pick one of several, another one for the next book."""
    return values[number % len(values)]


def _lists(values: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """Write a list in the two ways in which the service does."""
    return list(values), {str(place): value for place, value in enumerate(values)}
