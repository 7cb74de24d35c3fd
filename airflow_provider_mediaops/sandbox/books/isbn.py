"""Check digits of ISBNs, and a supply of valid ISBNs."""

from __future__ import annotations

import re

#: Every valid ISBN that begins so has a record.
GENERATED_PREFIX = "97800"
_GENERATED = 10_000_000
# Numbers that begin with 979-0 belong to printed music.
_OF_A_BOOK = re.compile("97(8[0-9]|9[1-9])[0-9]{9}|[0-9]{9}[0-9X]")


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
    bodies = (f"{GENERATED_PREFIX}{number:07d}" for number in range(count))
    return [body + _check_digit(body) for body in bodies]


def _check_digit(body: str) -> str:
    return str(-sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(body)) % 10)
