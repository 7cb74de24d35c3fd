from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import isbn as stdnum_isbn

from airflow_provider_mediaops.books.isbn import InvalidIsbnError, isbns_in, normalise


def isbn13_of(body: str) -> str:
    """ISO 2108: weights 1 and 3 in turn, to a multiple of ten."""
    return body + str(-sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(body)) % 10)


def isbn10_of(body: str) -> str:
    """ISO 2108: weights 10 to 2, to a multiple of eleven; ten is X."""
    return body + "0123456789X"[-sum((10 - place) * int(digit) for place, digit in enumerate(body)) % 11]


nine_digits = st.text("0123456789", min_size=9, max_size=9)
isbns13 = st.builds(
    lambda prefix, body: isbn13_of(prefix[:3] + (prefix[3:] + body)[:9]),
    st.sampled_from(["978", "9791", "9798", "9799"]),
    nine_digits,
)
separators = st.text(" \t\n-\u00a0\u00ad\u2009\u200b\u2010\u2011\u2012\u2013\u2014\u2212\u3000\ufeff\uff0d", max_size=2)
FULL_WIDTH = "ISBN:".translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)})
# The number is that of its digits.
labels = st.sampled_from(
    ["", "ISBN", "isbn ", "ISBN-{}: ", "ISBN {} ", "ISBN{}:", "ISBN:", "eISBN ", "urn:isbn:", "URN:ISBN:", FULL_WIDTH]
)
numbers = st.builds(
    lambda body, form: {"13": isbn13_of("978" + body), "10": isbn10_of(body)}[form],
    nine_digits,
    st.sampled_from(["13", "10"]),
)


def book_of(number: str) -> str:
    return isbn13_of("978" + number[-10:-1])


def spread(text: str, between: list[str]) -> str:
    return "".join(char + gap for char, gap in zip(text, between, strict=False))


@given(numbers, labels, st.lists(separators, min_size=13, max_size=13))
def test_any_separators_and_labels_are_accepted(number: str, label: str, between: list[str]) -> None:
    assert normalise(label.format(len(number)) + spread(number, between)) == book_of(number)


@given(st.one_of(st.text(), st.text("0123456789X-: ISBN", max_size=20), st.from_regex(r"97[89][0-9X]{5,12}")))
def test_any_text_is_an_isbn_or_a_reasoned_refusal(text: str) -> None:
    refused: InvalidIsbnError | None = None
    try:
        isbn13 = normalise(text)
    except InvalidIsbnError as error:
        refused = error
    if refused:
        assert str(refused).endswith(f" is not an ISBN: {refused.reason}.")
    else:
        assert isbn13.startswith(("978", "979"))
        assert isbn13 == isbn13_of(isbn13[:12])


@given(isbns13, st.sampled_from(["٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "0123456789"]))
def test_digits_of_other_scripts_count(isbn13: str, digits: str) -> None:
    assert normalise(isbn13.translate(str.maketrans("0123456789", digits))) == isbn13


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it holds no digits"),
        (" -\u200b ", "it holds no digits"),
        ("ISBN:", "it holds no digits"),
        ("013110362", "it has 9 digits, as an ISBN-10 that lost zeros; write all ten, or let repair_zeros do so"),
        ("97801311036", "it must have 10 or 13 digits, not 11"),
        ("9780131103627.5", "'.' does not belong in one"),
        ("40449132.0", "it has 8 digits, as an ISBN-10 that lost zeros; write all ten, or let repair_zeros do so"),
        ("9.78013E+12", "a spreadsheet has rounded it; format the column as text there"),
        ("9,78013e12", "a spreadsheet has rounded it; format the column as text there"),
        ("unknown", "'U' does not belong in one"),
        ("08044X2957", "X can only be the last character of an ISBN-10"),
        ("978013110362X", "X can only be the last character of an ISBN-10"),
        ("9770131103628", "its 13 digits begin with neither 978 nor 979"),
        ("979-0-2600-0043-8", "numbers that begin with 979-0 belong to printed music (ISMN)"),
        ("9780131103628", "its check digit does not fit the other digits, so one of them is wrong"),
        ("0131103629", "its check digit does not fit the other digits, so one of them is wrong"),
        ("9780131103627 978013110362", "it must have 10 or 13 digits, not 25"),
        ("9780131103627, 9780306406157", "it holds 2 different ISBNs; give one of them"),
    ],
)
def test_the_refusal_says_what_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(InvalidIsbnError) as caught:
        normalise(text)

    assert caught.value.reason == reason
    assert str(caught.value) == f"{text!r} is not an ISBN: {reason}."


def test_a_long_text_is_shown_in_part() -> None:
    with pytest.raises(InvalidIsbnError) as caught:
        normalise("9" * 1_000_000)

    assert len(str(caught.value)) < 200
    assert caught.value.text == "9" * 1_000_000


def test_the_refusal_can_be_copied() -> None:
    error = copy.deepcopy(InvalidIsbnError("x", "it is a letter"))

    assert (type(error), str(error), error.text) == (InvalidIsbnError, "'x' is not an ISBN: it is a letter.", "x")


@given(st.from_regex(r"97[0-9]{11}", fullmatch=True))
def test_thirteen_plain_digits_are_read_as_the_same_with_a_blank(digits: str) -> None:
    """Plain digits have a way of their own, because a list may have a million of them."""

    def read(text: str) -> str:
        try:
            return normalise(text)
        except InvalidIsbnError as error:
            return error.reason

    for text in (digits, isbn13_of(digits[:12])):
        assert read(text) == read(f"{text} ")


# A cell that holds a number, as programs and people write it.
WRITINGS = (
    "{}",
    '="{}"',
    "'{}",
    "\u2019{}",
    "[{}]",
    '["{}"]',
    "['{}']",
    '{{"type": "ISBN", "identifier": "{}"}}',
    "{} (pbk.)",
    "{} (pbk. : v. 1) :",
    "{} : $9.99",
    "{} \u00a39.99",
    "{} hardcover",
    "{}.",
    "{},",
    "{} ;",
    "$a {} $q (hardback)",
    "020 ## $a{}$c9.99",
    "ISBN: {}",
    "ISBN # {}",
    "ISBN-13 (print): {}",
    "EAN {}",
    "urn:isbn:{}",
    "https://books.example/isbn/{}",
    "https://books.example/search?isbn={}",
    "\t{}\x1f",
)


def hyphenated(number: str) -> str:
    return f"{number[:-10]}-{number[-10]}-{number[-9:-6]}-{number[-6:-1]}-{number[-1]}".lstrip("-")


def read(text: str) -> tuple[str, ...]:
    try:
        return isbns_in(text).isbn13s
    except InvalidIsbnError:
        return ()


@given(numbers, st.sampled_from(WRITINGS), st.booleans())
def test_an_isbn_is_read_from_every_writing(number: str, writing: str, is_hyphenated: bool) -> None:  # noqa: FBT001
    text = writing.format(hyphenated(number) if is_hyphenated else number)

    assert read(text) == (book_of(number),)


@pytest.mark.parametrize(
    "written",
    [
        "9780140449136.0",
        "9780140449136.00",
        "9.780140449136E12",
        "9.78014044913600e+12",
        "9,780140449136E+12",
        "9,780,140,449,136",
        "9.780.140.449.136",
        "9 780 140 449 136.00",
        "9\u202f780\u202f140\u202f449\u202f136,00",
    ],
)
def test_number_that_a_spreadsheet_wrote_with_all_its_digits_is_read(written: str) -> None:
    assert read(written) == ("9780140449136",)


@given(
    st.lists(numbers, min_size=2, max_size=4), st.sampled_from([" ", "; ", ", ", " | ", "/", "\n", " (pbk.) ", " and "])
)
def test_the_books_of_a_cell_are_read_in_their_order_and_once_each(cell: list[str], between: str) -> None:
    assert read(between.join(cell)) == tuple(dict.fromkeys(map(book_of, cell)))


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str]:
    """Give a number, and the same with a digit that is another one, missing, doubled or cut off."""
    number = draw(numbers)
    place = draw(st.integers(0, len(number) - 1))
    kind = draw(st.sampled_from(["another", "missing", "one more", "cut", "swapped"]))
    digit = draw(st.sampled_from([each for each in "0123456789" if each != number[place]]))
    if kind == "another":
        return number, number[:place] + digit + number[place + 1 :]
    if kind == "missing":
        return number, number[:place] + number[place + 1 :]
    if kind == "one more":
        return number, number[:place] + digit + number[place:]
    if kind == "cut":
        return number, number[: max(place, 1)]
    return number, number[:place] + number[place + 1 : place + 2] + number[place] + number[place + 2 :]


# ISO 2108: of thirteen digits, the check digit does not tell that two were swapped that differ by 5.
@given(damaged(), st.sampled_from(WRITINGS), st.sampled_from(["", " ", "-", ".", ",", "/"]), st.integers(1, 9))
def test_no_damaged_number_becomes_another_book(pair: tuple[str, str], writing: str, sign: str, place: int) -> None:
    number, wrong = pair
    text = writing.format(wrong[:place] + sign + wrong[place:])

    allowed = {book_of(number)}
    if stdnum_isbn.is_valid(wrong):
        allowed.add(stdnum_isbn.to_isbn13(wrong))
    assert set(read(text)) <= allowed


@given(numbers, st.integers(1, 11))
def test_a_number_that_a_spreadsheet_has_rounded_is_never_read(number: str, digits: int) -> None:
    assert read(f"{float(int(book_of(number))):.{digits}E}") == ()
    assert read(f"{float(int(book_of(number))):.12E}") == (book_of(number),)


@given(nine_digits)
def test_lost_zeros_are_put_back_only_if_asked_for_and_only_if_the_check_digit_fits(body: str) -> None:
    number = isbn10_of("0" + body[1:])
    short = number.lstrip("0")

    assert read(short) == (() if len(short) != 10 else (book_of(number),))
    if len(short) in (8, 9):
        assert isbns_in(short, repair_zeros=True) == ((book_of(number),), 10 - len(short))
        wrong = short[:-1] + ("1" if short[-1] in "0X" else str(int(short[-1]) - 1))
        with pytest.raises(InvalidIsbnError):
            isbns_in(wrong, repair_zeros=True)


@pytest.mark.parametrize(
    "text",
    [
        "OCLC 0306406152",
        "goodreads:0306406152",
        "amazon:0306406152",
        "$z 9780140449136",
        "978 0439023483",
        "978,0306406152",
        "0306406152.5",
        "0.306406152",
        "9780439023.481",
        "978O439O23481",
        "978043902348 0439023483",
    ],
)
def test_a_number_that_is_not_said_to_be_an_isbn_is_none(text: str) -> None:
    assert read(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        *("978.0.439.02348.1", "978/0/439/02348/1"),
        # With the add-on of a bar code.
        *("978043902348151299", "9780439023481 51299", "9780439023481-51299"),
    ],
)
def test_isbn13_is_read_with_any_one_sign_between_its_parts_and_without_its_add_on(text: str) -> None:
    assert read(text) == ("9780439023481",)


def test_a_cell_of_any_length_is_read_in_linear_time() -> None:
    for text in ("9 " * 5_000, "ISBN " * 2_000, "(" * 9_999, "$a 1" * 2_000, "[" * 9_999, "978-" * 2_500):
        assert read(text) == ()
