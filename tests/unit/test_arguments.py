"""Arguments as people and templates write them."""

import os
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest

from airflow_provider_mediaops import arguments
from airflow_provider_mediaops.arguments import (
    read_choice,
    read_flag,
    read_identifier,
    read_iso_time,
    read_moment,
    read_number,
    read_path,
    read_seconds,
    read_text,
    read_texts,
    read_whole_number,
)
from airflow_provider_mediaops.exceptions import InvalidArgumentError

Read = Callable[[str, Any], Any]

any_or_all = partial(read_choice, choices=("any", "all"))
from_one = partial(read_whole_number, minimum=1)
one_to_fifty = partial(read_whole_number, minimum=1, maximum=50)
number_in_bounds = partial(read_number, minimum=1, maximum=50.5)
# A name that is not UTF-8.
NO_UTF_8 = (os.fsdecode(b"/a/\xff.jsonl"), os.fsdecode(b"file:///a/\xff.jsonl"))
# As a text ends that was cut between the halves of a character.
HALF = "It failed \ud83d"
NOON = datetime(2026, 11, 16, 12, tzinfo=timezone.utc)
TEXTS_OF_NOON = (
    "2026-11-16T12:00:00+00:00",
    "2026-11-16T12:00:00Z",
    "2026-11-16T12:00:00.000z",
    "2026-11-16 14:00:00+02:00",
    " 2026-11-16T12:00 ",
)
NO_TIME = (None, 5, "", "Z", "soon", "2026-13-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-23:59")

UNDERSTOOD: list[tuple[Read, Any, Any]] = [
    *((read_flag, value, True) for value in (True, "true", "True", " TRUE ", "t", "yes", "Y", "on", "1", 1)),
    *((read_flag, value, False) for value in (False, "false", "False", "f", "no", "N", "off", "0", 0)),
    *((read_text, value, value) for value in ("a", "", " a\n", "It failed \U0001f600")),
    *((read_text, value, str(value)) for value in (5, -1)),
    (read_identifier, " v1\n", "v1"),
    (read_identifier, 123, "123"),
    *((read_path, path, path) for path in NO_UTF_8),
    (read_texts, "a", ("a",)),
    (read_texts, "a,b", ("a", "b")),
    (read_texts, " a , b ", ("a", "b")),
    (read_texts, ["a", "b"], ("a", "b")),
    (read_texts, ("a ",), ("a",)),
    (read_texts, range(2), ("0", "1")),
    (read_texts, [1, "b"], ("1", "b")),
    (read_texts, 7, ("7",)),
    (read_texts, set("edcba"), tuple("abcde")),
    (read_texts, "[::1]", ("[::1]",)),
    (read_texts, "_local", ("_local",)),
    (any_or_all, " any", "any"),
    *((read_whole_number, value, 3) for value in (3, "3", " 3 ", 3.0, "3.0")),
    (read_whole_number, "-2", -2),
    *((read, 1, 1) for read in (from_one, one_to_fifty)),
    (number_in_bounds, 1, 1.0),
    (read_number, 3, 3.0),
    *((read_number, value, 0.5) for value in ("0.5", 0.5)),
    (read_number, " 1e3 ", 1000.0),
    (read_seconds, timedelta(minutes=1), 60.0),
    (read_seconds, "2.5", 2.5),
    *((read_moment, value, NOON) for value in (*TEXTS_OF_NOON, NOON, NOON.replace(tzinfo=None))),
]
REFUSED: list[tuple[Read, Any, str]] = [
    *((read_flag, value, "is True or False; not ") for value in (None, "", "None", "maybe", 2, -1, 1.0, [], ["true"])),
    *((read_text, value, "is a text; not ") for value in (None, 1.5, True, b"a", ["a"], {"a": 1})),
    *((read_identifier, value, "is empty: give the identifier, or leave it out") for value in ("", " ", "\n")),
    *(
        (read_path, path, "is the path of a file; not ")
        for path in (" ", "/a\0b", "/a/\ud800.jsonl", "s3://bucket/\udcff.jsonl", "file:///a\ud83d")
    ),
    *((read, HALF, r"is a text of whole characters; not 'It failed \\ud83d'") for read in (read_text, read_identifier)),
    *(
        (read_texts, value, "needs at least one entry, and none of them empty; not ")
        for value in ("", " ", "a,", "a,,b", [], [""], ["a", " "])
    ),
    *(
        (read_texts, value, r"is the text of a list: .*\| join\(','\).* render_template_as_native_obj")
        for value in ("['a', 'b']", '["a"]', "[]", "[1, 2]", "('a',)", " ['a'] ")
    ),
    *(
        (read_texts, value, "is a list of texts, or one text with commas; not ")
        for value in (None, 1.5, True, b"a", {"a": 1}, object(), iter("a"))
    ),
    *((any_or_all, value, "is any or all; not ") for value in ("none", "ANY", "", None, 1, ["any"])),
    (partial(read_choice, choices=("a", "b", "c")), "d", "is a, b or c; not "),
    *(
        (read_whole_number, value, "is a whole number; not ")
        for value in (None, "", "three", 1.5, "1.5", True, "inf", float("nan"), "1e999", [3])
    ),
    *((from_one, value, "is a whole number, 1 or more; not ") for value in (0, "0")),
    *((one_to_fifty, value, "is a whole number, 1 to 50; not ") for value in (0, "0", 51, "51")),
    *((number_in_bounds, value, r"is a number, 1 to 50\.5; not ") for value in (0, "0", 51, "51")),
    *(
        (read_number, value, "is a number; not ")
        for value in (None, "", "x", "85 %", True, "nan", float("inf"), 10**400, [1], timedelta(1))
    ),
    *(
        (read_seconds, value, "is a number of seconds, 0 or more, or a timedelta; not")
        for value in (-1, timedelta(seconds=-1), "1 minute", None)
    ),
    *(
        (read, "{{ params.it }}", r".* Templates are not rendered in this argument\.$")
        for read in (read_flag, read_number, read_seconds)
    ),
    *((read_moment, value, "is a datetime, or the text of one such as 2026-11-16T00:00:00") for value in NO_TIME),
]


@pytest.mark.parametrize(("read", "value", "meant"), UNDERSTOOD)
def test_argument_that_is_understood_becomes_the_value_that_is_meant(read: Read, value: Any, meant: Any) -> None:
    found = read("it", value)
    assert (type(found), found) == (type(meant), meant)


@pytest.mark.parametrize(("read", "value", "message"), REFUSED, ids=range(len(REFUSED)))
def test_argument_that_is_not_understood_is_refused_with_the_correction(read: Read, value: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^it {message}"):
        read("it", value)


@pytest.mark.parametrize("entry", [None, 1.5, True, ["a"], HALF])
def test_entry_of_a_list_is_a_text_that_can_be_sent(entry: object) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"^an entry of ids (is a text; not |is a text of whole characters; not )"
    ):
        read_texts("ids", ["a", entry])


def test_argument_that_is_left_out_stays_none() -> None:
    assert arguments.optional(read_texts, "ids", None) is None
    assert arguments.optional(read_texts, "ids", "a,b") == ("a", "b")
    with pytest.raises(InvalidArgumentError, match="1 or more"):
        arguments.optional(read_whole_number, "size", 0, minimum=1)


@pytest.mark.parametrize("read", [read_flag, read_texts, read_number])
def test_a_long_value_is_cut_in_the_message(read: Read) -> None:
    for value in ("," * 1_000_000, ["," * 1_000, ""]):
        with pytest.raises(InvalidArgumentError) as caught:
            read("bulk", value)
        assert len(str(caught.value)) < 250


@pytest.mark.parametrize("text", NO_TIME)
def test_what_is_no_time_of_a_file_is_none(text: Any) -> None:
    assert read_iso_time(text) is None
