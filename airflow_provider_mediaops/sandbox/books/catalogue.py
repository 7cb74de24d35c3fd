"""The book database's ISBNs and records: invented around a few well-known ones, and as uneven as the real ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: Every valid ISBN that begins so has a record.
_GENERATED_PREFIX = "97800"
_GENERATED = 10_000_000
# Numbers that begin with 979-0 belong to printed music.
_OF_A_BOOK = re.compile("97(8[0-9]|9[1-9])[0-9]{9}|[0-9]{9}[0-9X]")


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

_OPTIONAL = ("title_long", "authors", "publisher", "language", "binding", "pages", "date_published", "msrp", "subjects")
#: What may be odd about a record, in words, with the fields that are written otherwise; None leaves one out.
ODDITIES: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "`isbn` is an ISBN-13": lambda book: {"isbn": book["isbn13"]},
    "`title` ends with a NUL byte": lambda book: {"title": f"{book['title']}\0"},
    "`authors` is an object with numeric keys": lambda book: {"authors": _with_numeric_keys(book["authors"])},
    "`authors` is a list that holds null": lambda book: {"authors": [*book["authors"], None]},
    "`subjects` is an object with numeric keys": lambda book: {"subjects": _with_numeric_keys(book["subjects"])},
    "`language` is `en_US`": lambda _: {"language": "en_US"},
    "`language` is `eng`": lambda _: {"language": "eng"},
    "`pages` is a text": lambda book: {"pages": str(book["pages"])},
    "`msrp` is a text": lambda book: {"msrp": f"{book['msrp']:.2f}"},
    "`msrp` is 0": lambda _: {"msrp": 0},
    "`date_published` is a day": lambda book: {"date_published": f"{book['date_published']}-03-31"},
    "`date_published` is a month": lambda book: {"date_published": f"{book['date_published']}-03"},
    "`date_published` has a time": lambda book: {"date_published": f"{book['date_published']}-03-31T00:00:01Z"},
    "`date_published` is a number": lambda book: {"date_published": int(book["date_published"])},
    "`date_published` is `-`": lambda _: {"date_published": "-"},
    "`dewey_decimal` is a list": lambda book: {"dewey_decimal": [book["dewey_decimal"], "[Fic]"]},
    "`dimensions` is a list": lambda book: {"dimensions": book["dimensions"].split(", ")},
    "`other_isbns` is there": lambda book: {"other_isbns": [{"isbn": book["isbn13"], "binding": "Audio CD"}]},
    "most fields are absent": lambda _: dict.fromkeys(_OPTIONAL),
}
_STEP = 37

_SUBJECTS = ("Invention", "Patience", "Weather", "Bridges", "Tea")
_BINDINGS = ("Hardcover", "Paperback", "Mass Market Paperback", "Kindle Edition")


def book(isbn: str) -> dict[str, Any] | None:
    """Return the record of a book by its ISBN-13, or None. Of a hundred records, each oddity has one."""
    if facts := _KNOWN.get(isbn):
        return _record(isbn, facts)
    if not isbn.startswith(_GENERATED_PREFIX):
        return None
    number = int(isbn[:12])
    record = _record(isbn, _generated(number))
    # The step spreads them, so that a short list has some.
    for change in list(ODDITIES.values())[number * _STEP % 100 :][:1]:
        record |= change(record)
    return {field: value for field, value in record.items() if value is not None}


def _generated(number: int) -> _Facts:
    return _Facts(
        title=f"A Short History of {_SUBJECTS[number % 5]}, Part {number % 10_000_000 + 1}",
        authors=tuple(f"Author {number * step % 997}, {name}" for step, name in ((1, "Ada"), (7, "Bo"))),
        publisher=f"Sandbox Press {number % 12 + 1}",
        year=1960 + number % 60,
    )


def _record(isbn: str, facts: _Facts) -> dict[str, Any]:
    number = int(isbn[:12])
    return {
        "isbn13": isbn,
        "isbn": isbn10_of(isbn),
        "title": facts.title,
        "title_long": f"{facts.title} ({facts.publisher})",
        "authors": list(facts.authors),
        "publisher": facts.publisher,
        "language": "en",
        "binding": _BINDINGS[number % len(_BINDINGS)],
        "pages": number % 900 + 20,
        "date_published": str(facts.year),
        "msrp": float(f"{number % 40 + 4}.{number % 100:02d}"),
        "dewey_decimal": "823.914",
        "dimensions": "Height: 7.8 Inches, Width: 5.1 Inches",
        "subjects": list(_SUBJECTS[: number % 4 + 1]),
        "image": f"https://images.sandbox.example/books/{isbn}.jpg",
    }


def _with_numeric_keys(values: list[str]) -> dict[str, str]:
    return {str(place): value for place, value in enumerate(values)}


def as_isbn13(text: str) -> str | None:
    """Return the 13 digits of an ISBN, old or new, that is written without hyphens; None if the text is not one."""
    from stdnum import isbn

    return isbn.to_isbn13(text) if _OF_A_BOOK.fullmatch(text) and isbn.is_valid(text) else None


def isbn10_of(isbn13: str) -> str:
    """Return the ISBN-10 of a book whose ISBN-13 begins with 978."""
    from stdnum import isbn

    return isbn.to_isbn10(isbn13)


def sample_isbns(count: int) -> list[str]:
    """Return up to ten million ISBN-13s that all have a record, all different, always the same ones."""
    if not 0 <= count <= _GENERATED:
        raise ValueError(f"The sandbox has between 0 and {_GENERATED:,} generated ISBNs, not {count:,}.")
    bodies = (f"{_GENERATED_PREFIX}{number:07d}" for number in range(count))
    return [body + _check_digit(body) for body in bodies]


def _check_digit(body: str) -> str:
    return str(-sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(body)) % 10)
