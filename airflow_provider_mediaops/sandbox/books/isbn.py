"""ISBNs, as far as the sandbox needs them: check digits, and a supply of valid ones."""

from __future__ import annotations

import re

#: Every valid ISBN that begins so has a record.
GENERATED_PREFIX = "97800"
_GENERATED = 10_000_000


def is_isbn13(text: str) -> bool:
    """Tell whether a text is the 13 digits of a book's ISBN.

    :param text: as it stands in the address.
    :returns: whether it is; 979-0 numbers belong to printed music and are none.
    """
    return bool(re.fullmatch("97(8[0-9]|9[1-9])[0-9]{9}", text)) and text[12] == _check_digit(text[:12])


def isbn10_of(isbn13: str) -> str:
    """Give the ISBN-10 of a book.

    :param isbn13: a valid ISBN-13 that begins with 978.
    :returns: the same book's ISBN-10.
    """
    body = isbn13[3:12]
    remainder = -sum(weight * int(digit) for weight, digit in zip(range(10, 1, -1), body, strict=True)) % 11
    return body + ("X" if remainder == 10 else str(remainder))  # noqa: PLR2004 - ISO 2108: ten is written X


def sample_isbns(count: int) -> list[str]:
    """Make a list of ISBNs that all have a record, for trying long lists.

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
