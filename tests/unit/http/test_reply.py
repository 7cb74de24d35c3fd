from __future__ import annotations

import json
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_mediaops.exceptions import InvalidReplyError
from airflow_provider_mediaops.http.exchange import Response
from airflow_provider_mediaops.http.reply import (
    ErrorDetails,
    excerpt,
    is_of_search_cluster,
    looks_like_html,
    plain_text,
    read_error,
    read_json,
    retry_after_seconds,
)
from tests.unit.call_flows import START

PAGE = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><p>Please  sign&nbsp;in.</p></body></html>"
#: Words that have a meaning in an error.
WORDS = st.sampled_from(
    ("error", "errors", "details", "root_cause", "status", "type", "name", "reason", "message", "errorMessage")
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(), inner, max_size=4),
    max_leaves=12,
)


def of(body: Any) -> Response:
    return Response(400, {}, body if isinstance(body, bytes) else json.dumps(body).encode())


def test_a_byte_order_mark_does_no_harm() -> None:
    assert read_json(of(b'\xef\xbb\xbf\n {"a": [1, null]} ')) == {"a": [1, None]}
    assert looks_like_html(of(b"\xef\xbb\xbf\n" + PAGE))


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "is empty"),
        (PAGE, "is a web page"),
        (b'{"items": [{"id": "a"}, {"id"', "is not valid JSON"),
        (b"hello", "is not valid JSON"),
        (b'{"a": "\xff"}', "is not valid JSON"),
        (b"[" * 100_000, "is not valid JSON"),
        (b"[1]", "is a JSON list"),
        (b'{"a": [1, 1e999]}', r"is not valid JSON .* \(it holds a number that is too large: 1e999\)\."),
        (b"null", "is a JSON NoneType"),
        (b'{"a": [' + b"{}," * 1_500_000 + b"{}]}", "holds more than 2,000,000 values"),
    ],
)
def test_reply_that_is_no_json_object_is_described(body: bytes, what: str) -> None:
    with pytest.raises(InvalidReplyError, match=f"^The reply {what}"):
        read_json(of(body))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('This would exceed your <a href="/q">quota</a>.', "This would exceed your quota."),
        # The words of two tags are two words.
        ("<html><h1>403 Forbidden</h1><hr><center>nginx</center></html>", "403 Forbidden nginx"),
        ("<Error><Code>AccessDenied</Code><Message>No.</Message></Error>", "AccessDenied No."),
        ("<tr><td>one</td><td>two</td></tr>", "one two"),
        # Without any markup, it is a word of the service.
        ("index [<empty>] and <your-key>", "index [<empty>] and <your-key>"),
        ("The <code>id</code> is short.<br>if 3 < 4 and 5 > 4", "The id is short. if 3 < 4 and 5 > 4"),
        ("a\n\n  b\tc", "a b c"),
        ("1 &lt; 2 &amp; 3", "1 < 2 & 3"),
        ("red \x1b[31mtext\x00 end", "red [31mtext end"),
        ("seen \u202edrawkcab\u202c, \u2067apart\u2069\ufeff", "seen drawkcab , apart"),
        ("", ""),
    ],
)
def test_text_for_people_is_one_plain_line(text: str, plain: str) -> None:
    assert plain_text(text) == plain


@pytest.mark.parametrize("digits", ["0" * 5_000 + "47", "9" * 5_000, "x" + "0" * 5_000 + "2F", "x" + "f" * 5_000])
def test_a_character_by_a_number_of_thousands_of_digits_does_no_harm(digits: str) -> None:
    assert len(plain_text(f"odd: &#{digits}; text")) <= 300
    assert read_error(of({"message": f"odd: &#{digits};"})).message


def test_a_secret_that_comes_to_light_without_markup_is_struck_out() -> None:
    assert plain_text("s3<b>cr</b>3t, &#115;3cr3t<br>", ["s3cr3t"]) == "***, ***"


def test_long_texts_are_cut() -> None:
    assert plain_text("x" * 300) == "x" * 300
    assert plain_text("x" * 301) == "x" * 299 + "…"
    assert excerpt(of("ü".encode() * 100_000)) == "ü" * 299 + "…"


@given(st.text())
def test_any_text_becomes_one_short_line(text: str) -> None:
    line = plain_text(text)
    assert len(line) <= 300
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in line)


@pytest.mark.parametrize(
    ("body", "reason", "name", "message"),
    [
        ({"error": {"message": "All <b>spent</b>.", "errors": [{"reason": "quota"}]}}, "quota", None, "All spent."),
        ({"error": {"status": "DENIED", "details": [{"@type": "Help"}, {"reason": "SCOPE"}]}}, "SCOPE", "DENIED", None),
        ({"error": {"errors": [{"name": "none", "reason": "noVideo"}], "message": "No."}}, "noVideo", "none", "No."),
        ({"error": {"status": "UNAUTHENTICATED", "message": "Who?"}}, "UNAUTHENTICATED", "UNAUTHENTICATED", "Who?"),
        ({"error": {"root_cause": [{"type": "x", "reason": "No."}], "type": "y", "reason": "z"}}, "x", None, "No."),
        ({"error": {"type": "timeout_exception", "reason": "late"}}, "timeout_exception", None, "late"),
        ({"error": "invalid_grant", "error_description": "Revoked."}, "invalid_grant", None, "Revoked."),
        ({"error": "no handler found for uri [/x]", "status": 400}, None, None, "no handler found for uri [/x]"),
        # The names and reasons of the video platform's document, whose form of an error is not shown.
        ({"error": {"name": "notFound", "reason": "videoNotFound"}}, "videoNotFound", "notFound", None),
        ({"name": "notFound", "reason": "videoNotFound", "message": "No."}, "videoNotFound", "notFound", "No."),
        ({"errors": [{"name": "notFound", "reason": "videoNotFound"}]}, "videoNotFound", "notFound", None),
        ({"error": {"name": "notFound"}}, "notFound", "notFound", None),
        ({"error": "forbidden", "errors": [{"name": "other"}]}, "forbidden", "other", None),
        # The message for people may stand in the list only.
        ({"error": {"errors": [{"reason": "late", "message": "Too <b>late</b>."}]}}, "late", None, "Too late."),
        ({"errors": [{"message": "No."}, {"message": "Never."}]}, None, None, "No."),
        ({"errorMessage": "Not Found"}, None, None, "Not Found"),
        ({"message": "Limit Exceeded"}, None, None, "Limit Exceeded"),
        ({"detail": "Not Found"}, None, None, "Not Found"),
        ({"error": {"errors": ["text", None, {"reason": "late"}]}}, "late", None, None),
        ({"error": {"errors": {"reason": "no list"}}}, None, None, None),
        ({"error": {"errors": [*[{}] * 20, {"reason": "late"}]}}, None, None, None),
        ({"error": {"errors": [{"reason": "two words\nand a line"}]}}, None, None, None),
        ({"error": {"errors": [{"reason": "x" * 101}]}}, None, None, None),
        ({"error": None}, None, None, None),
        (b"", None, None, None),
    ],
)
def test_an_error_body_of_any_shape_is_understood(
    body: Any, reason: str | None, name: str | None, message: str | None
) -> None:
    assert read_error(of(body)) == ErrorDetails(reason, name, message)


@given(ANY_JSON)
def test_no_body_is_too_odd(body: object) -> None:
    details = read_error(of(body))
    assert details.reason is None or len(details.reason.splitlines()) == 1
    assert details.message is None or len(details.message) <= 300


@pytest.mark.parametrize(
    ("headers", "body", "is_one"),
    [
        ({}, {"error": {"type": "index_not_found_exception", "reason": "no such index [v3]"}, "status": 404}, True),
        ({}, {"error": "no handler found for uri [/v3/activities] and method [POST]"}, True),
        ({"x-elastic-product": "Elasticsearch"}, {}, True),
        ({}, {"error": {"errors": [{"reason": "videoNotFound"}], "message": "There is no such video."}}, False),
        ({}, {}, False),
    ],
)
def test_a_search_cluster_is_known_by_its_errors_or_its_header(
    headers: dict[str, str], body: object, *, is_one: bool
) -> None:
    reply = Response(404, headers, json.dumps(body).encode())
    assert is_of_search_cluster(reply, read_error(reply)) is is_one


# How long the service asks to wait.

DAY = 86_400


def http_date(seconds: float) -> str:
    return format_datetime(START + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("1.5", 1.5),
        ("9" * 400, DAY),
        (http_date(90), 90.0),
        (http_date(-90), 0.0),
        (http_date(DAY * 5), DAY),
        ("Sat, 14 Mar 2026 20:00:30 -0000", 30.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("inf", None),
        ("1e3", None),
        ("\u0661\u0662", None),
        ("Sat, 14 Mar 99999 20:00:30 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after_seconds({"retry-after": value}, START) == seconds


def test_a_date_is_measured_against_the_replys_own_date() -> None:
    # The service's clock is an hour ahead of ours.
    headers = {"retry-after": http_date(3_630), "date": http_date(3_600)}
    assert retry_after_seconds(headers, START) == 30.0
    assert retry_after_seconds({**headers, "date": "nonsense"}, START) == 3_630.0


DATE_LIKE = st.from_regex(r"\A[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,6} \d+:\d+:\d+ .{0,8}\Z")


@pytest.mark.long
@given(value=st.text() | DATE_LIKE, date=st.text() | DATE_LIKE)
@example(value="0 MAY 0 0:10000000000 0", date="")
def test_any_text_is_seconds_within_a_day_or_nothing(value: str, date: str) -> None:
    seconds = retry_after_seconds({"retry-after": value, "date": date}, START)
    assert seconds is None or 0.0 <= seconds <= DAY
