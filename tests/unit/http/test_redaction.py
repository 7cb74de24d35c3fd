"""Credentials that a service echoes: as they are, quoted for an address, JSON or HTML, in base64, and cut in two."""

from __future__ import annotations

import base64
import html
import json
import re
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus, unquote, unquote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_mediaops.http.redaction import LONGEST_TEXT, SHORTEST_SECRET, redacted

SECRET = "S3cr3t/k+y=ü\U0001f600&q%41\"<\\'"


def in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def by_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


#: Each makes a text that is read as the given one.
FORMS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "JSON": in_json,
    "JSON, ASCII": lambda text: json.dumps(text)[1:-1],
    "JSON, PHP": lambda text: in_json(text).replace("/", "\\/"),
    "JSON, Gson": lambda text: re.sub("[=&<>'+]", lambda found: f"\\u{ord(found[0]):04x}", in_json(text)),
    "JSON, twice": lambda text: in_json(in_json(text)),
    "HTML": html.escape,
    "HTML, twice": lambda text: html.escape(html.escape(text)),
    "HTML, hex": lambda text: re.sub(r"[^\w.~-]", lambda found: f"&#x{ord(found[0]):02X};", text),
    "HTML, decimal": lambda text: re.sub(r"[^\w.~-]", lambda found: f"&#{ord(found[0]):03};", text),
    "HTML, Gson": lambda text: html.escape(text).replace("&", "\\u0026"),
    "percent": lambda text: quote(text, safe=""),
    "percent, lower": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "percent, twice": lambda text: quote(quote(text, safe=""), safe=""),
    "form": quote_plus,
    "base64": by_base64,
    "base64, for addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64, of a login": lambda text: by_base64(f"login:{text}"),
    "base64, percent": lambda text: quote(by_base64(text), safe=""),
}
#: What a reader of a text may do to it.
READINGS: tuple[Callable[[str], str], ...] = (
    html.unescape,
    unquote,
    unquote_plus,
    lambda text: re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text),
    lambda text: re.sub(r"\\x([0-9a-fA-F]{2})", lambda found: chr(int(found[1], 16)), text),
    lambda text: re.sub(r"\\(.)", r"\1", text),
)


def readings(text: str, depth: int = 2) -> set[str]:
    """Everything that a text can be read as, in every order of the readings."""
    found = last = {text}
    for _ in range(depth):
        last = {reading(each) for each in last for reading in READINGS} - found
        found = found | last
    return found


def decoded_base64(text: str) -> str:
    """All that runs of base64 characters decode to, wherever a group may begin."""
    found = []
    for run in re.findall(r"[A-Za-z0-9+/_-]{4,}", text):
        for shift in range(4):
            part = run[shift:].replace("-", "+").replace("_", "/")
            part = part[: len(part) // 4 * 4]
            found.append(base64.b64decode(part).decode("utf-8", "replace"))
    return "\n".join(found)


def assert_hidden(text: str, secret: str) -> None:
    for reading in readings(text):
        assert secret not in reading, text
        assert secret not in decoded_base64(reading), text


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_in_any_form_is_struck_out(form: str) -> None:
    shown = redacted(f"You sent <i>{FORMS[form](SECRET)}</i>, sorry.", [SECRET])
    assert_hidden(shown, SECRET)
    # In base64, some characters beside it hold nothing of it.
    assert re.fullmatch(r"You sent <i>(\w{0,8})\*\*\*([\w=%]{0,6})</i>, sorry\.", shown)
    assert "base64" in form or shown == "You sent <i>***</i>, sorry."


#: As keys, tokens and passwords are.
SECRETS = st.text(alphabet="ABCabc0123456789+/=-_.~", min_size=8, max_size=24) | st.text(
    alphabet=st.characters(min_codepoint=32, max_codepoint=0x17F), min_size=8, max_size=24
)


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(
    secret=SECRETS,
    form=st.sampled_from(list(FORMS.values())),
    around=st.tuples(st.text(max_size=12), st.text(max_size=12)),
)
def test_no_reading_of_a_redacted_text_holds_the_secret(
    secret: str, form: Callable[[str], str], around: tuple[str, str]
) -> None:
    assert_hidden(redacted(form(f"{around[0]}{secret}{around[1]}"), [secret]), secret)


@pytest.mark.parametrize("form", [name for name in FORMS if "base64" not in name])
def test_wherever_a_text_is_cut_no_part_of_a_secret_is_left(form: str) -> None:
    text = f"1234567890 {FORMS[form](SECRET)} and more"
    parts = {SECRET[at : at + SHORTEST_SECRET + 1] for at in range(len(SECRET) - SHORTEST_SECRET)}
    for longest in range(11, len(text)):
        shown = redacted(text, [SECRET], longest=longest)
        for reading in readings(shown):
            assert not [part for part in parts if part in reading], (longest, shown)


OTHER = "1 &lt; 2, a%20b, \\u0041 <b>x</b>\n two  blanks + c2VjcmV0"


@pytest.mark.parametrize(
    ("text", "secrets", "shown"),
    [
        (OTHER, [SECRET], OTHER),
        (OTHER, [], OTHER),
        ("key=abcd1234 abcd1234efgh end", ["abcd1234", "abcd1234efgh", "", "ab"], "key=*** *** end"),
        # They would be found in ordinary words, and striking those out would show them.
        ("The name of it", ["it", "nam"], "The name of it"),
        ("The name of it", ["name"], "The *** of it"),
        # What is cut keeps its length.
        ("x" * 3_000, [SECRET], "x" * LONGEST_TEXT),
        (f"{SECRET} {'x' * 3_000}", [SECRET], f"*** {'x' * (LONGEST_TEXT - 1 - len(SECRET))}"),
    ],
)
def test_all_secrets_that_are_not_too_short_and_nothing_else_is_struck_out(
    text: str, secrets: list[str], shown: str
) -> None:
    assert redacted(text, secrets) == shown


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "%" * 10_000_000,
        "%25" * 1_000_000,
        "&amp;#37;\\u0025%26amp;<b>" * 100_000,
        "\\" * 1_000_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_text_takes_little_time(text: str) -> None:
    started = time.process_time()
    hard = ["tok-" + "abcdefg" * 300, SECRET, "%25%25%25x", "\\" * 40 + "x", '\\"' * 40 + "x", "&&&&&amp;amp;x"]
    shown = redacted(text, hard)
    # Processor time, and a hundred times what it takes: it shows only that it does not grow with the text.
    assert time.process_time() - started < 10
    assert len(shown) <= LONGEST_TEXT
