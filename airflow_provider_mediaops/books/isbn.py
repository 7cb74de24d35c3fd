"""
ISBNs as people and programs write them, and the thirteen digits that the book database takes (ISO 2108).

A number is taken out of its cell, never guessed: it counts if it is whole and its check digit fits.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from airflow_provider_mediaops.exceptions import InvalidArgumentError

# The usual case, which a list may have a million times. The numbers of 979-0 are printed music.
_PLAIN = re.compile(r"97(?:8[0-9]|9[1-9])[0-9]{9}")
# Whatever may stand before the digits, once separators are gone: "ISBN", "ISBN-13:", "urn:isbn:", "eISBN". After the
# word, "10" and "13" are part of the label only where a number of that length follows.
_LABEL = re.compile(r"(?:URN:)?E?ISBN(?:10(?=:?.{10}\Z)|13(?=:?.{13}\Z))?:?")
_DIGITS = re.compile(r"[0-9]*X?")
_MINUS = "\N{MINUS SIGN}"
_SHORTEST, _SBN, _ISBN10, _ISBN13, _ADD_ON = 8, 9, 10, 13, 5
_X_IS_LAST = "X can only be the last character of an ISBN-10"
_SHOWN = 40
# A cell of millions of characters is not a number, and each pattern would read all of it.
_LONGEST = 10_000

# Signs that stand for a hyphen in some exports, and letters that look like X, which ISO 2108 means.
_HYPHENS = "\N{MIDDLE DOT}\N{BULLET}\N{MACRON}\N{HYPHEN BULLET}\N{KATAKANA-HIRAGANA PROLONGED SOUND MARK}\u2500"
_LIKE_X = (
    "\N{CYRILLIC CAPITAL LETTER HA}\N{CYRILLIC SMALL LETTER HA}\N{GREEK CAPITAL LETTER CHI}\N{GREEK SMALL LETTER CHI}"
)
_SIGNS = str.maketrans(dict.fromkeys(_HYPHENS, "-") | dict.fromkeys(_LIKE_X, "X"))
# What may stand around a number: the quotes of a spreadsheet's ="…", an apostrophe, brackets, the end of a sentence.
_WRAPS = " \t\r\n=\"'`()[]{}<>.,;:#*\xab\xbb\xb4\u2018\u2019\u201a\u201c\u201d\u201e"
# Spreadsheets write a column of numbers as 9780140449136.0, 9,780,140,449,136 or 9.78014E+12.
_WHOLE_NUMBER = re.compile(r"([0-9]+)(?:[.,]0*)?")
_THOUSANDS = re.compile(r"([0-9]{1,3}([.,' ])[0-9]{3}(?:\2[0-9]{3})+)(?:[.,]0+)?")
_POWER = re.compile(r"([0-9])[.,]([0-9]+)E\+?([0-9]{1,2})")
# Of other signs between the parts, only those of a whole ISBN-13 are certain to be one.
_PARTS = re.compile(r"97[89]([./])[0-9]+\1[0-9]+\1[0-9]+\1[0-9]")
_URL = re.compile(r"(?:HTTPS?://|WWW\.)\S+")
_URL_END = re.compile(r"[/=]([0-9][0-9-]*X?)/?\Z")
_WORDED_LABEL = re.compile(
    r"(?<![A-Z])(?:URN\s*:\s*)?(?:[EP][\s-]?)?(?:ISBN|EAN)S?"
    r"(?:[\s-]*\(?1[03](?![0-9])\)?)?(?:\s*N[OR]?[.°º])?[\s#:=.-]*(?![A-Z])"
)
# The subfields of MARC: $a has the number, $q a remark, $z a number that is not to be used.
_SUBFIELD = re.compile(r"[$‡ǂ|]([A-Z])(?=[\s0-9])")
_REMARK = re.compile(r"\(([^()]*)\)")
_BETWEEN = re.compile(r"[;|\t\r\n\"“”'\[\]{}<>&]|\s:\s|\sAND\s")
_COMMA = re.compile(r"[,/]")
_TOKEN = re.compile(r"([0-9][0-9-]*X?)(?![0-9A-Z-])(?![.,][0-9])")
# What may stand by itself within a number that is written with blanks.
_IN_NUMBER = ("-", "--", "X")
_NUMBER = re.compile(r"[0-9][0-9 -]*X?")
_SHORT_NUMBER = re.compile(r"[0-9 -]+")


class InvalidIsbnError(InvalidArgumentError):
    """A text that is not an ISBN of a book, with the reason."""

    def __init__(self, text: str, reason: str) -> None:
        self.text = text
        self.reason = reason
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        super().__init__(f"{shown!r} is not an ISBN: {reason}.")

    def __reduce__(self) -> tuple[type[InvalidIsbnError], tuple[str, str]]:
        return InvalidIsbnError, (self.text, self.reason)


class CellIsbns(NamedTuple):
    """The different ISBNs of a cell in their order, and how many leading zeros were put back."""

    isbn13s: tuple[str, ...]
    zeros: int = 0


def normalise(text: str | int) -> str:
    """
    Return the thirteen digits of an ISBN-10 or ISBN-13 in any usual writing, or raise InvalidIsbnError.

    For example ``0-13-110362-8`` or ``ISBN 978-0-13-110362-7 (pbk.)``; a number as a template may render it.
    """
    isbn13s = isbns_in(text := str(text)).isbn13s
    if len(isbn13s) > 1:
        raise InvalidIsbnError(text, f"it holds {len(isbn13s)} different ISBNs; give one of them")
    return isbn13s[0]


def isbns_in(text: str, *, repair_zeros: bool = False) -> CellIsbns:
    """
    Return the ISBNs of a cell, one or more, as catalogues, spreadsheets and data frames write them.

    Blanks and hyphens of every kind are separators; digits of every script count. Quotes, brackets, labels such as
    ``ISBN-13:``, the address of a page and remarks such as ``(pbk.) : $9.99`` are taken off. With ``repair_zeros`` a
    number of 8 or 9 characters is read with the zeros before it that a spreadsheet has taken away, if its check digit
    fits then. InvalidIsbnError, with the reason, if there is none.
    """
    if _PLAIN.fullmatch(text) and _has_check_digit(text):
        return CellIsbns((text,))
    if len(text) > _LONGEST:
        raise InvalidIsbnError(text, f"it has more than {_LONGEST:,} characters")
    plain = _plain_of(text)
    number = _whole_of(text, plain)
    if number is not None and (isbn13 := _isbn13_of(number)):
        return CellIsbns((isbn13,))
    found = _found_in(plain)
    if found:
        return CellIsbns(tuple(dict.fromkeys(found)))
    is_short = number is not None and _SHORTEST <= len(number) < _ISBN10
    if repair_zeros and number and is_short and (isbn13 := _isbn13_of(number.zfill(_ISBN10))):
        return CellIsbns((isbn13,), _ISBN10 - len(number))
    raise InvalidIsbnError(text, _reason(number if number is not None else _compact(plain), plain))


def _has_check_digit(digits: str) -> bool:
    # The sum of the characters' codes is that of the digits and 1,200 more.
    codes = digits.encode()
    return (sum(codes[::2]) + 3 * sum(codes[1::2])) % 10 == 0


def _isbn13_of(number: str) -> str | None:
    """Return the thirteen digits of a number without separators; None if it is not an ISBN of a book."""
    if len(number) == _ISBN13:
        return number if _PLAIN.fullmatch(number) and _has_check_digit(number) else None
    if len(number) == _ISBN13 + _ADD_ON:
        # The bar code of a book with its price beside it.
        return _isbn13_of(number[:_ISBN13]) if number.isdigit() else None
    if len(number) != _ISBN10 or not _DIGITS.fullmatch(number):
        return None
    from stdnum import exceptions, isbn

    try:
        return str(isbn.to_isbn13(isbn.validate(number)))
    except exceptions.ValidationError:
        return None


def _plain_of(text: str) -> str:
    """Return a text in capitals, with plain digits, hyphens and blanks."""
    if not text.isascii():
        # NFKC makes plain letters and digits of full-width ones.
        text = unicodedata.normalize("NFKC", text.translate(_SIGNS))
    if not (text.isascii() and text.isprintable()):
        text = "".join(map(_plain_character, text))
    return text.upper().replace("_", "-").replace("~", "-").strip()


@lru_cache(maxsize=4096)
def _plain_character(char: str) -> str:
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    # Pd: hyphens and dashes. Cf: invisible ones, such as soft hyphens and marks of direction. Cc: controls.
    kind = unicodedata.category(char)
    if kind == "Pd" or char == _MINUS:
        return "-"
    if kind == "Cf":
        return ""
    return " " if char not in "\t\r\n" and (kind == "Cc" or char.isspace()) else char


def _whole_of(text: str, plain: str) -> str | None:
    """Return the characters of the number if the cell is one number; None if it is something else."""
    body = plain.strip(_WRAPS)
    if power := _POWER.fullmatch(body):
        whole, part, exponent = power[1], power[2], int(power[3])
        if len(part) < exponent or part[exponent:].strip("0"):
            raise InvalidIsbnError(text, "a spreadsheet has rounded it; format the column as text there")
        return whole + part[:exponent]
    if thousands := _THOUSANDS.fullmatch(body):
        return thousands[1].replace(thousands[2], "")
    if whole_number := _WHOLE_NUMBER.fullmatch(body):
        return whole_number[1]
    if parts := _PARTS.fullmatch(body):
        return body.replace(parts[1], "")
    number = _compact(body)
    return number if number and _DIGITS.fullmatch(number) else None


def _compact(plain: str) -> str:
    kept = "".join(plain.replace("-", "").split())
    label = _LABEL.match(kept)
    return kept[label.end() :] if label else kept


def _found_in(plain: str) -> list[str]:
    """Return the ISBNs in a cell that holds more than one number."""
    if len(subfields := _SUBFIELD.split(plain)) > 1:
        before, *rest = subfields
        codes, contents = rest[::2], rest[1::2]
        named = [content for code, content in zip(codes, contents, strict=True) if code == "A"]
        plain = ";".join(named or [before])
    found: list[str] = []
    for piece in _BETWEEN.split(_REMARK.sub(_without_remark, plain)):
        if _URL.fullmatch(piece.strip()):
            end = _URL_END.search(piece.strip().partition("#")[0])
            found += filter(None, [_isbn13_of(end[1].replace("-", ""))] if end else [])
            continue
        for labelled in _WORDED_LABEL.sub(";", piece).split(";"):
            found += _in_piece(labelled)
    return found


def _without_remark(remark: re.Match[str]) -> str:
    return f";{remark[1]};" if sum(map(str.isdigit, remark[1])) >= _ISBN10 else ";"


def _in_piece(piece: str) -> list[str]:
    """Return the ISBNs of a piece, in which commas and slashes may stand between numbers, or within one."""
    parts = [part.strip(_WRAPS) for part in _COMMA.split(piece)]
    found = [(isbn, length) for part in parts for isbn, length in _in_part(part)]
    # Ten digits beside a shorter number may be the rest of thirteen that are damaged.
    short = any(_SHORT_NUMBER.fullmatch(part) and len(_compact(part)) < _SBN for part in parts)
    return [isbn for isbn, length in found if length != _ISBN10 or not short]


def _in_part(part: str) -> list[tuple[str, int]]:
    """Return the ISBNs at the beginning of a text, with their lengths, and those of thirteen digits after it."""
    words = part.split()
    numbers: list[str] = []
    is_end = False
    while words and not is_end and (words[0] in _IN_NUMBER or _TOKEN.match(words[0])):
        word = words.pop(0)
        match = _TOKEN.match(word)
        numbers.append((match[1] if match else word).replace("-", ""))
        is_end = match is not None and match.end() < len(word)
    found = _of_numbers(list(filter(None, numbers)))
    if numbers and not found:
        return []
    for word in words:
        match = _TOKEN.match(word.strip(_WRAPS))
        number = match[1].replace("-", "") if match else ""
        if len(number) == _ISBN13 and (isbn13 := _isbn13_of(number)):
            found.append((isbn13, _ISBN13))
    return found


def _of_numbers(numbers: list[str]) -> list[tuple[str, int]]:
    """Return the ISBNs of numbers with blanks between them, which must all be part of one."""
    whole = "".join(numbers)
    if not whole:
        return []
    if isbn13 := _isbn13_of(whole):
        return [(isbn13, len(whole))]
    each = [(isbn13, len(number)) for number in numbers if (isbn13 := _isbn13_of(number))]
    if len(each) == len(numbers):
        return each
    if len(whole) % _ISBN13 == 0:
        parts = [_isbn13_of(whole[at : at + _ISBN13]) for at in range(0, len(whole), _ISBN13)]
        if all(parts):
            return [(part, _ISBN13) for part in parts if part]
    return []


def _reason(number: str, plain: str) -> str:
    """Return what is wrong with a number without separators."""
    if not any(map(str.isdigit, number)) and not number.strip(_WRAPS):
        return "it holds no digits"
    if not _DIGITS.fullmatch(number):
        runs = (_compact(run) for run in _NUMBER.findall(plain))
        wrong = next((run for run in runs if len(run) >= _SBN and not _isbn13_of(run)), None)
        if wrong:
            return _reason(wrong, "")
        strange = next((char for char in number if char not in "0123456789X"), None)
        return f"{strange!r} does not belong in one" if strange else _X_IS_LAST
    return _reason_of_digits(number)


def _reason_of_digits(number: str) -> str:
    length = len(number)
    if _SHORTEST <= length < _ISBN10:
        return f"it has {length} digits, as an ISBN-10 that lost zeros; write all ten, or let repair_zeros do so"
    if length not in (_ISBN10, _ISBN13):
        return f"it must have 10 or 13 digits, not {length}"
    is_long = length == _ISBN13
    if is_long and number.endswith("X"):
        return _X_IS_LAST
    if is_long and not number.startswith(("978", "979")):
        return "its 13 digits begin with neither 978 nor 979"
    if is_long and number.startswith("9790"):
        return "numbers that begin with 979-0 belong to printed music (ISMN)"
    return "its check digit does not fit the other digits, so one of them is wrong"
