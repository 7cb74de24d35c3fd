"""Check digits of ISBNs, and a supply of valid ISBNs."""

from __future__ import annotations

import re

#: Every valid ISBN that begins so has a record.
GENERATED_PREFIX = "97800"
_GENERATED = 10_000_000


def is_isbn13(text: str) -> bool:
    """
    Return whether a text is the 13 digits of a book's ISBN.

    :param text: as it stands in the address.
    :returns: whether it is; numbers that begin with 979-0 belong to printed music.
    """
    return bool(re.fullmatch("97(8[0-9]|9[1-9])[0-9]{9}", text)) and text[12] == _check_digit(text[:12])


def as_isbn13(text: str) -> str | None:
    """
    Return the 13 digits of a book's ISBN, old or new.

    :param text: 13 digits, or 9 digits and a digit or ``X``; without hyphens.
    :returns: the ISBN-13; None if the text is not a valid ISBN.
    """
    if is_isbn13(text):
        return text
    if not re.fullmatch("[0-9]{9}[0-9X]", text):
        return None
    body = f"978{text[:9]}"
    isbn13 = body + _check_digit(body)
    return isbn13 if isbn10_of(isbn13) == text else None


def isbn10_of(isbn13: str) -> str:
    """
    Return the ISBN-10 of a book.

    :param isbn13: a valid ISBN-13 that begins with 978.
    :returns: the same book's ISBN-10.
    """
    body = isbn13[3:12]
    remainder = -sum(weight * int(digit) for weight, digit in zip(range(10, 1, -1), body, strict=True)) % 11
    return body + ("X" if remainder == 10 else str(remainder))  # noqa: PLR2004 - ISO 2108: ten is written X


def sample_isbns(count: int) -> list[str]:
    """
    Return a list of ISBNs that all have a record, for trying long lists.

    :param count: how many, up to ten million.
    :returns: ISBN-13s, all different, always the same ones.
    :raises ValueError: if there are not so many.
    """
    if not 0 <= count <= _GENERATED:
        raise ValueError(f"The sandbox has between 0 and {_GENERATED:,} generated ISBNs, not {count:,}.")
    bodies = (f"{GENERATED_PREFIX}{number:07d}" for number in range(count))
    return [body + _check_digit(body) for body in bodies]


def _check_digit(body: str) -> str:
    return str(-sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(body)) % 10)
