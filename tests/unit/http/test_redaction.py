"""Secrets in disguise: every form that a service may echo a credential in, alone, nested and side by side."""

from __future__ import annotations

import base64
import html
import json
import logging
import random
import re
import time
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_mediaops.http.exchange import Request
from airflow_provider_mediaops.http.redaction import (
    LONGEST_TEXT,
    SHORTEST_SECRET,
    hiding_credentials,
    redacted,
    unescape_html,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "S3cr3t/k+y=ü&q%41"


def in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def as_units(text: str, case: Callable[[str], str] = str) -> str:
    units = text.encode("utf-16-be").hex()
    return "".join("\\u" + case(units[at : at + 4]) for at in range(0, len(units), 4))


def as_percent(text: str, case: Callable[[str], str] = str) -> str:
    return "".join("%" + case(f"{byte:02x}") for byte in text.encode())


def by_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


#: Each makes a text that is read as the given one.
FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "JSON": in_json,
    "JSON, ASCII": lambda text: json.dumps(text)[1:-1],
    "JSON, PHP": lambda text: in_json(text).replace("/", "\\/"),
    "JSON, Gson": lambda text: re.sub("[=&<>'+/]", lambda found: as_units(found[0]), in_json(text)),
    "JSON, all": as_units,
    "JSON, all, upper": lambda text: as_units(text, str.upper),
    "HTML": html.escape,
    "HTML, hex": lambda text: "".join(f"&#x{ord(char):x};" for char in text),
    "HTML, hex, padded": lambda text: "".join(f"&#X{ord(char):08X};" for char in text),
    "HTML, decimal": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "HTML, decimal, padded, open": lambda text: "".join(f"&#{ord(char):07d} " for char in text),
    "HTML, slash": lambda text: html.escape(text).replace("/", "&sol;").replace("=", "&equals;"),
    "percent": lambda text: quote(text, safe=""),
    "percent, lower": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "percent, some": lambda text: quote(text, safe="/=+"),
    "percent, all": lambda text: as_percent(text, str.upper),
    "percent, all, lower": as_percent,
    "form": quote_plus,
    "base64": by_base64,
    "base64, urlsafe": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64, of a login": lambda text: by_base64(f"login:{text}"),
    "base64, in the middle": lambda text: by_base64(f"ab{text}more"),
    "base64, lines": lambda text: "\r\n".join(re.findall(".{1,7}", by_base64(f"x{text}"))),
    "lines": "\n".join,
    "blanks": lambda text: " ".join(re.findall("(?s).{1,3}", text)),
    "JSON line ends": lambda text: "\\r\\n".join(re.findall("(?s).{1,3}", text)),
    "zero width": "\u200b".join,
    "isolates": "\u2068\u2069".join,
    "markup": lambda text: "<b>".join(re.findall("(?s).{1,3}", text)),
    "bytes": lambda text: repr(text.encode())[2:-1],
    "header": lambda text: text.encode().decode("latin-1"),
}
#: What a reader of a text may do to it.
READINGS: tuple[Callable[[str], str], ...] = (
    html.unescape,
    unquote,
    unquote_plus,
    lambda text: re.sub(
        r"(?:\\u[0-9a-fA-F]{4})+",
        lambda found: bytes.fromhex(found[0].replace("\\u", "")).decode("utf-16-be", "replace"),
        text,
    ),
    lambda text: re.sub(r"\\(.)", r"\1", text),
    lambda text: re.sub("<[^<>]*>", "", text),
    lambda text: re.sub(r"\s", "", text),
)


def readings(text: str, depth: int = 3) -> set[str]:
    """Everything that a text can be read as, in every order of the readings."""
    found = last = {text}
    for _ in range(depth):
        last = {reading(each) for each in last for reading in READINGS} - found
        found = found | last
    return found


def decoded_base64(text: str) -> str:
    """All that runs of base64 characters decode to, wherever a group may begin."""
    found = []
    for run in re.findall(r"[A-Za-z0-9+/_-]{4,}", re.sub(r"\s", "", text)):
        for shift in range(4):
            part = run[shift:].replace("-", "+").replace("_", "/")
            part = part[: len(part) // 4 * 4]
            found.append(base64.b64decode(part).decode("utf-8", "replace"))
    return "\n".join(found)


def assert_hidden(text: str, secret: str) -> None:
    wanted = re.sub(r"\s", "", secret)
    for reading in readings(text):
        assert wanted not in re.sub(r"\s", "", reading), text
        assert wanted not in re.sub(r"\s", "", decoded_base64(reading)), text


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_in_one_form_is_struck_out(form: str) -> None:
    shown = redacted(f"You sent <i>{FORMS[form](SECRET)}</i>, sorry.", [SECRET])
    assert shown.startswith("You sent <i>")
    assert shown.endswith("</i>, sorry.")
    assert "***" in shown
    assert_hidden(shown, SECRET)


#: Base64 is looked into for the usual forms only.
IN_BASE64 = ("raw", "JSON", "JSON, ASCII", "JSON, PHP", "HTML", "percent", "form")
NESTED = [
    (inner, outer)
    for outer in FORMS
    for inner in FORMS
    if "base64" not in inner and ("base64" not in outer or inner in IN_BASE64)
]


@pytest.mark.parametrize(("inner", "outer"), NESTED)
def test_a_secret_in_one_form_within_another_is_struck_out(inner: str, outer: str) -> None:
    assert_hidden(redacted(FORMS[outer](f"before {FORMS[inner](SECRET)} behind"), [SECRET]), SECRET)


SECRETS = st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=0x17F), min_size=8, max_size=24)
#: As keys and tokens are.
TOKENS = st.text(alphabet="ABCabc0123456789+/=-_.~", min_size=8, max_size=24)
NOT_BASE64 = [form for name, form in FORMS.items() if "base64" not in name and name not in ("markup", "header")]


@settings(max_examples=150, deadline=None)
@given(
    secret=TOKENS | SECRETS,
    layers=st.lists(st.sampled_from(NOT_BASE64), max_size=2),
    last=st.sampled_from(list(FORMS.values())),
    around=st.tuples(st.text(max_size=12), st.text(max_size=12)),
)
@example(secret="00000000", layers=[FORMS["JSON, all"], FORMS["blanks"]], last=quote_plus, around=("", ""))
@example(secret="41bcdefg/=", layers=[], last=str, around=("%", ""))
@example(secret="a%41b<c>d&amp;e", layers=[], last=html.escape, around=("", ""))
def test_no_reading_of_what_is_shown_holds_the_secret(
    secret: str, layers: list[Callable[[str], str]], last: Callable[[str], str], around: tuple[str, str]
) -> None:
    text = secret
    if "base64" not in next(name for name, form in FORMS.items() if form is last):
        for layer in layers:
            text = layer(text)
    shown = redacted(last(f"{around[0]}{text}{around[1]}"), [secret])
    assert_hidden(shown, secret)


@settings(max_examples=150, deadline=None)
@given(secret=TOKENS, seed=st.integers(0, 10**9))
def test_a_secret_whose_characters_are_escaped_each_in_its_own_way_is_struck_out(secret: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    ways: list[Callable[[str], str]] = [
        str,
        as_units,
        as_percent,
        lambda char: f"&#{ord(char):04};",
        lambda char: f"&#x{ord(char):x};",
        lambda char: f"{char}\n",
        lambda char: f"<i>{char}",
        lambda char: as_percent(as_percent(char)),
    ]
    shown = redacted("".join(chance.choice(ways)(char) for char in secret), [secret])
    assert shown.count("*") <= 12
    assert_hidden(shown, secret)


@settings(max_examples=150, deadline=None)
@given(secret=TOKENS, form=st.sampled_from(list(FORMS.values())), left=st.integers(0, 60), longest=st.integers(40, 80))
def test_a_cut_leaves_no_start_of_a_secret(secret: str, form: Callable[[str], str], left: int, longest: int) -> None:
    text = "." * max(longest - left, 0) + form(secret) + "." * 200
    shown = redacted(text, [secret], longest=longest)
    parts = {secret[at : at + SHORTEST_SECRET + 1] for at in range(len(secret) - SHORTEST_SECRET)}
    for reading in readings(shown, 2):
        assert not [part for part in parts if part in re.sub(r"\s", "", reading)], shown


def test_an_escape_that_the_secret_only_seems_to_end_is_seen_through() -> None:
    # Only one who undoes the percent signs and nothing else reads it.
    assert redacted("&#65;bcdefg%2Fh", ["65;bcdefg/h"]) == "&#***"


@pytest.mark.parametrize("form", [name for name in FORMS if "base64" not in name])
def test_wherever_a_secret_is_cut_none_of_it_is_left(form: str) -> None:
    text = f"1234567890 {FORMS[form](SECRET)} and more"
    parts = {SECRET[at : at + 5] for at in range(len(SECRET) - 4)}
    for longest in range(11, len(text)):
        shown = redacted(text, [SECRET], longest=longest)
        for reading in readings(shown, 2):
            assert not [part for part in parts if part in re.sub(r"\s", "", reading)], (longest, shown)


def test_a_cut_within_a_long_tag_leaves_no_start_of_a_secret() -> None:
    text = "key S3cr3t<span class='a name that is longer than any escape'>/k3y"
    assert redacted(text, ["S3cr3t/k3y"], longest=50) == "key ***"


def test_of_several_secrets_none_is_left() -> None:
    shown = redacted("key=abcd1234 abcd1234efgh tok-5678 end", ["abcd1234", "abcd1234efgh", "tok-5678", "", "ab"])
    assert shown == "key=*** *** *** end"


def test_what_is_no_secret_is_left_as_it_is() -> None:
    text = "1 &lt; 2, a%20b, \\u0041 <b>x</b>\n two  blanks + c2VjcmV0"
    assert redacted(text, [SECRET]) == text
    assert redacted(text, []) == text


def test_secrets_that_are_too_short_are_left() -> None:
    # They would be found in ordinary words, and striking those out would show them.
    assert redacted("The name of it", ["it", "nam"]) == "The name of it"
    assert redacted("The name of it", ["name"]) == "The *** of it"


@pytest.mark.parametrize(
    "text",
    [
        "%" * 10_000_000,
        "%25" * 1_000_000,
        "&amp;#37;\\u0025%26amp;<b>" * 100_000,
        "<" * 1_000_000,
        "&#" + "0" * 1_000_000,
        "\\" * 1_000_000,
        "%2525252525" * 100_000,
        "abcdefg" * 1_000_000,
        "&amp" * 1_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_text_takes_little_time(text: str) -> None:
    started = time.process_time()
    shown = redacted(text, ["abcdefgX", "tok-" + "abcdefg" * 300, SECRET, "%25%25%25x", "<<<<<<<<x"])
    # Processor time, and a hundred times what it takes: it shows only that it does not grow with the text.
    assert time.process_time() - started < 10
    assert len(shown) <= LONGEST_TEXT


@given(st.text())
def test_any_text_is_unescaped(text: str) -> None:
    assert isinstance(unescape_html(text), str)


class TestLogs:
    """The log records of urllib3 while a request is sent."""

    @pytest.mark.parametrize(
        "name",
        [
            "urllib3.connectionpool",
            "urllib3.connection",
        ],
    )
    def test_a_record_holds_no_secret_of_the_request(self, name: str, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, logger=name)
        request = Request("GET", "/", secrets=("t0k3n/+ü",), secret_params=(("key", "k1"),))
        with hiding_credentials(request):
            header = "t0k3n/+ü".encode()
            logging.getLogger(name).debug("reply %r, location %s?key=k1&a=1", [(b"x-echo", header)], "http://one")
            logging.getLogger(name).debug("by form: t0k3n%2f%2b%c3%bc")
        first, second = caplog.messages
        assert first == "reply [(b'x-echo', b'***')], location http://one?key=***&a=1"
        assert second == "by form: ***"

    def test_a_traceback_holds_none_either(self, caplog: pytest.LogCaptureFixture) -> None:
        with hiding_credentials(Request("GET", "/", secrets=("t0k3n-s3cr3t",))):
            try:
                int("unparsed: t0k3n-s3cr3t")
            except ValueError:
                logging.getLogger("urllib3.connectionpool").warning("Failed to parse headers", exc_info=True)
        assert "'unparsed: ***'" in caplog.text
        assert "s3cr3t" not in caplog.text
        assert caplog.records[0].exc_info is None

    def test_a_record_that_cannot_be_formatted_does_not_end_the_request(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, logger="urllib3.connection")
        with hiding_credentials(Request("GET", "/", secrets=("t0k3n-s3cr3t",))):
            logging.getLogger("urllib3.connection").debug("%d", "t0k3n-s3cr3t")
        assert caplog.messages == []

    def test_records_outside_a_request_are_left_alone(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, logger="urllib3.connection")
        with hiding_credentials(Request("GET", "/", secrets=("t0k3n-s3cr3t",))):
            pass
        logging.getLogger("urllib3.connection").debug("t0k3n-s3cr3t of somebody else")
        assert caplog.messages == ["t0k3n-s3cr3t of somebody else"]
