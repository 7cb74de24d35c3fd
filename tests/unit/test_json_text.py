"""JSON that services send is kept as it came: parsed, written and parsed again it has the same value."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.formats import json_line, json_lines

# All characters, lone surrogates included.
TEXTS = st.text(st.characters(exclude_categories=()))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(TEXTS, children, max_size=4),
    max_leaves=20,
)


@given(value=VALUES)
def test_a_value_survives_writing_and_parsing(value: Any) -> None:
    line = json_line(value)

    assert b"\n" not in line
    # 1, 1.0 and True are three values, -0.0 and 0.0 two.
    assert repr(parse_json(line)) == repr(json.loads(line.decode("utf-8"))) == repr(value)


@given(values=st.lists(VALUES, max_size=5))
def test_lines_are_the_values_in_order(values: list[Any]) -> None:
    lines = json_lines(values)

    assert repr([parse_json(line) for line in lines.splitlines()]) == repr(values)
    # Each has a form of its own, whatever stands beside it.
    assert lines == b"".join(json_lines([value]) for value in values)


def test_a_value_that_is_refused_changes_no_other() -> None:
    assert json_lines(["\ud800", float("nan"), [float("-inf")]]) == b'"\\ud800"\nnull\n[null]\n'


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (2**200, str(2**200).encode()),
        # Numbers that are no more than large, and a text that looks like a larger one.
        ([10**400, "7e999"], b"[" + str(10**400).encode() + b',"7e999"]'),
        ({"a": "\ud800", "b": "\\\udfff", "c": None}, b'{"a":"\\ud800","b":"\\\\\\udfff","c":null}'),
        ({}, b"{}"),
    ],
)
def test_odd_values_have_one_form(value: Any, line: bytes) -> None:
    assert json_line(value) == line
    assert json_lines([0, value]) == b"0\n" + line + b"\n"
    assert repr(parse_json(line)) == repr(value)


@pytest.mark.parametrize(
    "number", [b"1e999", b"-1E+400", b"1.7976931348623159e308", b"9" * 400 + b".0", b"9" * 210 + b"e99"]
)
@pytest.mark.parametrize("outer", [b"%b", b'{"a":[1,%b]}', b'["\\ud800",%b]', b"[NaN,%b]"])
def test_a_number_too_large_for_a_float_is_refused(outer: bytes, number: bytes) -> None:
    with pytest.raises(ValueError, match="it holds a number that is too large: "):
        parse_json(outer % number)


def test_the_last_of_duplicate_keys_counts() -> None:
    assert parse_json(b'{"a":1,"b":2,"a":3}') == {"a": 3, "b": 2}


@pytest.mark.parametrize("outer", [b"[%b]", b'{"a":%b}', b"[0,%b,1]"])
def test_value_that_can_be_parsed_can_be_written(outer: bytes) -> None:
    def parsed(data: bytes) -> Any:
        try:
            return parse_json(data)
        except ValueError:
            return None

    # How deep Python goes depends on its stack.
    for depth in (150, 300, 600, *range(690, 1_000)):
        data = b"0"
        for _ in range(depth):
            data = outer % data
        if (record := parsed(data)) is None:
            assert depth > 600
        else:
            assert json_line({"record": record}) == b'{"record":%b}' % data
            assert json_lines([{"record": record}]) == b'{"record":%b}\n' % data


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[1,]", b'"\xff"', b'"a\x00b"', b"\xff\xfe1\x00", b"nul", b"9" * 5_000, b"[" * 200_000),
        # Half of a surrogate pair, which a second parser reads, makes nothing good.
        *(rb'{"title": "\ud83d"', rb'{"\ud83d": ' + b"[" * 100_000, rb'{"a": "\u12"}'),
    ],
    ids=lambda data: str(data[:8]),
)
def test_text_that_is_not_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 the parser's own words
        parse_json(data)


def test_a_value_nested_too_deep_to_be_written_is_a_value_error() -> None:
    value: list[Any] = []
    for _ in range(200_000):
        value = [value]
    try:
        with pytest.raises(ValueError, match="nested too deep"):
            json_line(value)
        with pytest.raises(ValueError, match="nested too deep"):
            json_lines([value])
    finally:
        # Python frees nested lists by recursion of its own, which is bounded; this loop needs none.
        while value:
            value = value[0]
