"""Arguments as people and templates write them."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_mediaops import arguments
from airflow_provider_mediaops.exceptions import InvalidArgumentError


@pytest.mark.parametrize("value", [True, "true", "True", " TRUE ", "t", "yes", "Y", "on", "1", 1])
def test_a_flag_that_is_set(value: object) -> None:
    assert arguments.read_flag("bulk", value) is True


@pytest.mark.parametrize("value", [False, "false", "False", "f", "no", "N", "off", "0", 0])
def test_a_flag_that_is_not_set(value: object) -> None:
    assert arguments.read_flag("bulk", value) is False


@pytest.mark.parametrize("value", [None, "", "None", "maybe", 2, -1, 1.0, [], ["true"], {}])
def test_anything_else_is_no_flag(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^bulk is True or False; not "):
        arguments.read_flag("bulk", value)


@pytest.mark.parametrize(("value", "text"), [("a", "a"), ("", ""), (" a\n", " a\n"), (5, "5"), (-1, "-1")])
def test_a_text_is_kept_and_an_integer_is_the_text_of_its_digits(value: object, text: str) -> None:
    assert arguments.read_text("text", value) == text


@pytest.mark.parametrize("value", [None, 1.5, True, b"a", ["a"], {"a": 1}])
def test_anything_else_is_no_text(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^text is a text; not "):
        arguments.read_text("text", value)


def test_an_identifier_has_no_blanks_at_its_ends() -> None:
    assert arguments.read_identifier("video_id", " v1\n") == "v1"
    assert arguments.read_identifier("video_id", 123) == "123"


@pytest.mark.parametrize("value", ["", " ", "\n"])
def test_a_blank_is_no_identifier(value: str) -> None:
    with pytest.raises(InvalidArgumentError, match="video_id is empty: give the identifier, or leave video_id out"):
        arguments.read_identifier("video_id", value)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("a", ("a",)),
        ("a,b", ("a", "b")),
        (" a , b ", ("a", "b")),
        (["a", "b"], ("a", "b")),
        (("a ",), ("a",)),
        (range(2), ("0", "1")),
        ([1, "b"], ("1", "b")),
        (7, ("7",)),
        ({"b", "a"}, ("a", "b")),
        ("[::1]", ("[::1]",)),
        ("_local", ("_local",)),
    ],
)
def test_a_list_of_texts(value: object, texts: tuple[str, ...]) -> None:
    assert arguments.read_texts("ids", value) == texts


@pytest.mark.parametrize("value", ["", " ", "a,", "a,,b", [], [""], ["a", " "]])
def test_a_list_has_an_entry_and_no_empty_one(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^ids needs at least one entry, and none of them empty; not "):
        arguments.read_texts("ids", value)


@pytest.mark.parametrize("value", ["['a', 'b']", '["a"]', "[]", "[1, 2]", "('a',)", " ['a'] "])
def test_the_text_of_a_list_is_refused_with_what_to_write(value: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\| join\(','\).* render_template_as_native_obj"):
        arguments.read_texts("ids", value)


@pytest.mark.parametrize("value", [None, 1.5, True, b"a", {"a": 1}, object(), iter("a")])
def test_anything_else_is_no_list(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^ids is a list of texts, or one text with commas; not "):
        arguments.read_texts("ids", value)


@pytest.mark.parametrize("entry", [None, 1.5, True, ["a"]])
def test_an_entry_is_a_text(entry: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^an entry of ids is a text; not "):
        arguments.read_texts("ids", ["a", entry])


def test_choice_is_one_of_a_few_words() -> None:
    assert arguments.read_choice("require", " any", ("any", "all")) == "any"
    for value in ("none", "ANY", "", None, 1, ["any"]):
        with pytest.raises(InvalidArgumentError, match=r"^require is any or all; not "):
            arguments.read_choice("require", value, ("any", "all"))
    with pytest.raises(InvalidArgumentError, match=r"^format is a, b or c; not "):
        arguments.read_choice("format", "d", ("a", "b", "c"))


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3), ("3", 3), (" 3 ", 3), (3.0, 3), ("3.0", 3), ("-2", -2), (10**30, 10**30)]
)
def test_a_whole_number(value: object, number: int) -> None:
    assert arguments.read_whole_number("captures", value) == number


@pytest.mark.parametrize("value", [None, "", "three", 1.5, "1.5", True, "inf", float("nan"), "1e999", [3]])
def test_anything_else_is_no_whole_number(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^captures is a whole number; not "):
        arguments.read_whole_number("captures", value)


@pytest.mark.parametrize("value", [10**5_000, -(10**100), "9" * 101, 1e300], ids=["5,001", "101", "text", "float"])
def test_a_whole_number_has_a_hundred_digits_at_most(value: object) -> None:
    # Python writes none of 4,300 digits or more: the first message with it would be a ValueError of its own.
    with pytest.raises(InvalidArgumentError, match=r"^captures is a whole number of at most 100 digits; not "):
        arguments.read_whole_number("captures", value)
    assert arguments.read_whole_number("captures", 10**100 - 1) == 10**100 - 1


@pytest.mark.parametrize("path", ["/a/\ud800.jsonl", "s3://bucket/\udcff.jsonl", "file:///a\ud83d"])
def test_half_of_a_surrogate_pair_is_in_no_path(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^reuse holds half of a surrogate pair, at character \d+,"):
        arguments.read_path("reuse", path)


@pytest.mark.parametrize("read", [arguments.read_text, arguments.read_identifier, arguments.read_texts])
def test_text_with_half_of_a_surrogate_pair_is_refused(read: Callable[..., object]) -> None:
    # As a text ends that was cut between the halves.
    text = "It failed \ud83d"
    with pytest.raises(InvalidArgumentError, match=r"text holds half of a surrogate pair, at character 11, which no r"):
        read("text", text)
    assert read("text", "It failed \U0001f600")


def test_a_local_name_that_is_no_utf_8_is_a_path() -> None:
    for path in (os.fsdecode(b"/a/\xff.jsonl"), os.fsdecode(b"file:///a/\xff.jsonl")):
        assert arguments.read_path("reuse", path) == path


@pytest.mark.parametrize(("value", "number"), [(3, 3.0), ("0.5", 0.5), (0.5, 0.5), (" 1e3 ", 1000.0)])
def test_a_number(value: object, number: float) -> None:
    assert arguments.read_number("threshold", value) == number


@pytest.mark.parametrize("value", [None, "", "x", "85 %", True, "nan", float("inf"), 10**400, [1], timedelta(1)])
def test_anything_else_is_no_number(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^threshold is a number; not "):
        arguments.read_number("threshold", value)


def test_a_time_in_seconds() -> None:
    assert arguments.read_seconds("every", timedelta(minutes=1)) == 60
    assert arguments.read_seconds("every", "2.5") == 2.5
    for value in (-1, timedelta(seconds=-1), "1 minute", None):
        with pytest.raises(
            InvalidArgumentError, match=r"^every is a number of seconds, 0 or more, or a timedelta; not"
        ):
            arguments.read_seconds("every", value)


@pytest.mark.parametrize(
    ("read", "bounds", "rule"),
    [
        (arguments.read_whole_number, {"minimum": 1}, "is a whole number, 1 or more"),
        (arguments.read_whole_number, {"minimum": 1, "maximum": 50}, "is a whole number, 1 to 50"),
        (arguments.read_number, {"minimum": 1, "maximum": 50.5}, r"is a number, 1 to 50\.5"),
    ],
)
def test_bounds_are_kept_and_named(read: Callable[..., Any], bounds: dict[str, Any], rule: str) -> None:
    assert read("size", bounds["minimum"], **bounds) == 1
    for value in (0, "0", *([51, "51"] if "maximum" in bounds else [])):
        with pytest.raises(InvalidArgumentError, match=f"^size {rule}; not "):
            read("size", value, **bounds)
    with pytest.raises(InvalidArgumentError, match=r"^size is a number, 3 or less; not 4"):
        arguments.read_number("size", 4, maximum=3)


def test_argument_that_is_left_out_stays_none() -> None:
    assert arguments.optional(arguments.read_texts, "ids", None) is None
    assert arguments.optional(arguments.read_texts, "ids", "a,b") == ("a", "b")
    with pytest.raises(InvalidArgumentError, match="1 or more"):
        arguments.optional(arguments.read_whole_number, "size", 0, minimum=1)


def test_a_template_that_was_not_rendered_is_said_to_be_one() -> None:
    reads: list[Callable[[str, object], Any]] = [arguments.read_flag, arguments.read_number, arguments.read_seconds]
    for read in reads:
        with pytest.raises(InvalidArgumentError, match=r"Templates are not rendered in this argument\.$"):
            read("bulk", "{{ params.bulk }}")


@pytest.mark.parametrize("read", [arguments.read_flag, arguments.read_texts, arguments.read_number])
def test_a_long_value_is_cut_in_the_message(read: Callable[[str, object], Any]) -> None:
    for value in ("," * 10_000_000, ["," * 1_000, ""], 10**6_000):
        with pytest.raises(InvalidArgumentError) as caught:
            read("bulk", value)
        assert len(str(caught.value)) < 250
