"""ISBNs as people write them, and the thirteen digits that the book database takes (ISO 2108)."""

from __future__ import annotations

import re
import unicodedata

from airflow_provider_mediaops.exceptions import InvalidArgumentError

# The usual case, which a list may have a million times. The numbers of 979-0 are printed music.
_PLAIN = re.compile(r"97(?:8[0-9]|9[1-9])[0-9]{9}")
# Whatever may stand before the digits, once separators are gone: "ISBN", "ISBN-13:", "urn:isbn:", "eISBN". After the
# word, "10" and "13" are part of the label only where a number of that length follows.
_LABEL = re.compile(r"(?:URN:)?E?ISBN(?:10(?=:?.{10}\Z)|13(?=:?.{13}\Z))?:?")
_DIGITS = re.compile(r"[0-9]*X?")
# Spreadsheets write a column of numbers as 9780140449136.0 or 9.78014E+12.
_WHOLE_NUMBER = re.compile(r"\s*([0-9]+)\.0+\s*")
_ROUNDED = re.compile(r"\s*[0-9][.,][0-9]+[eE]\+?12\s*")
_MINUS = "\N{MINUS SIGN}"
_SBN, _ISBN10, _ISBN13 = 9, 10, 13
_SHOWN = 40


class InvalidIsbnError(InvalidArgumentError):
    """
    A text that is no ISBN of a book.

    :param text: the text as it was given.
    :param reason: what is wrong with it.
    """

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        super().__init__(f"{shown!r} is no ISBN: {reason}.")

    def __reduce__(self) -> tuple[type[InvalidIsbnError], tuple[str, str]]:
        return InvalidIsbnError, (self.text, self.reason)


def normalise(text: str | int) -> str:
    """
    Return the thirteen digits of an ISBN-10 or ISBN-13 in any usual writing.

    Blanks and hyphens of every kind are separators; digits of every script count; a label such as ``ISBN-13:`` or
    ``urn:isbn:`` may stand before them, and the ``.0`` of a spreadsheet's number after them.

    :param text: for example ``0-13-110362-8`` or ``ISBN 978-0-13-110362-7``; a number as a template may render it.
    :returns: for example ``9780131103627``.
    :raises InvalidIsbnError: if the text is not the ISBN of a book; the message has the reason.
    """
    text = str(text)
    if _PLAIN.fullmatch(text) and _has_check_digit(text):
        return text
    if _ROUNDED.fullmatch(text):
        raise InvalidIsbnError(text, "a spreadsheet has rounded it; format the column as text there")
    whole = _WHOLE_NUMBER.fullmatch(text)
    number = _compact(whole[1] if whole else text)
    if not number:
        raise InvalidIsbnError(text, "it holds no digits")
    if not _DIGITS.fullmatch(number):
        raise InvalidIsbnError(text, _misplaced(number))
    _check_length(text, number)

    from stdnum import exceptions, isbn

    try:
        return str(isbn.to_isbn13(isbn.validate(number)))
    except exceptions.InvalidChecksum:
        raise InvalidIsbnError(text, "its check digit does not fit the other digits, so one of them is wrong") from None


def _has_check_digit(digits: str) -> bool:
    # The sum of the characters' codes is that of the digits and 1,200 more.
    codes = digits.encode()
    return (sum(codes[::2]) + 3 * sum(codes[1::2])) % 10 == 0


def _compact(text: str) -> str:
    # NFKC makes plain letters and digits of full-width ones.
    plain = unicodedata.normalize("NFKC", text)
    kept = "".join(_digit_or_itself(char) for char in plain if not _is_separator(char)).upper()
    label = _LABEL.match(kept)
    return kept[label.end() :] if label else kept


def _is_separator(char: str) -> bool:
    # Pd: hyphens and dashes. Cf: invisible ones, such as soft hyphens and marks of direction.
    return char.isspace() or char == _MINUS or unicodedata.category(char) in ("Pd", "Cf")


def _digit_or_itself(char: str) -> str:
    digit = unicodedata.decimal(char, None)
    return char if digit is None else str(digit)


def _misplaced(number: str) -> str:
    strange = next((char for char in number if char not in "0123456789X"), None)
    if strange is None:
        return "X can only be the last character of an ISBN-10"
    return f"{strange!r} does not belong in one"


def _check_length(text: str, number: str) -> None:
    length = len(number)
    if length == _SBN:
        reason = "it has 9 digits, as an SBN or an ISBN-10 that lost its first 0; write all ten"
    elif length not in (_ISBN10, _ISBN13):
        reason = f"it must have 10 or 13 digits, not {length}"
    elif length == _ISBN10:
        return
    elif number.endswith("X"):
        reason = "X can only be the last character of an ISBN-10"
    elif not number.startswith(("978", "979")):
        reason = "its 13 digits begin with neither 978 nor 979"
    elif number.startswith("9790"):
        reason = "numbers that begin with 979-0 belong to printed music (ISMN)"
    else:
        return
    raise InvalidIsbnError(text, reason)
