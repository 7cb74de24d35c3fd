"""What a command found, in each of its forms."""

from __future__ import annotations

import io
import json

import pytest

from airflow_provider_mediaops.cli.terminal import Figure, Line, Result, Terminal, TextTable

RESULT = Result(
    {"conn_id": "books", "left": 12},
    [
        Line("The connection works.", "good"),
        TextTable([], [["  plan", "pro"], ["  quota left", 12]], title="books"),
        TextTable(
            ["name", "used", "open"], [["é", Figure("7.5 %"), True], ["a longer name", 1200, None]], title="Keys"
        ),
    ],
)
PLAIN = """\
The connection works.

books
  plan        pro
  quota left  12

Keys
name            used  open
é              7.5 %  yes
a longer name   1200  -
"""


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def shown(result: Result, form: str = "text", *, secrets: tuple[str, ...] = ()) -> str:
    output = io.StringIO()
    terminal = Terminal(output, io.StringIO())
    terminal.hide(secrets)
    terminal.show(result, form)
    return output.getvalue()


def on_screen(result: Result, monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", **environment}.items():
        monkeypatch.setenv(name, value)
    screen = Screen()
    Terminal(screen, io.StringIO()).show(result, "text")
    return screen.getvalue()


def test_a_pipe_gets_whole_lines_however_long() -> None:
    name = "n" * 5_000
    assert name in shown(Result(None, [TextTable(["name"], [[name]])])).splitlines()


def test_people_get_lines_and_tables() -> None:
    assert shown(RESULT) == PLAIN


@pytest.mark.parametrize(
    ("environment", "coloured", "plain"),
    [({}, True, False), ({"NO_COLOR": "1"}, False, False), ({"TERM": "dumb"}, False, True)],
)
def test_a_terminal_gets_colours_if_it_can_and_wants_them(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], *, coloured: bool, plain: bool
) -> None:
    text = on_screen(RESULT, monkeypatch, **environment)

    assert ("\x1b[32mThe connection works." in text) is coloured
    assert ("\x1b" not in text) is plain


def test_a_tab_in_a_value_leaves_the_columns_straight() -> None:
    table = TextTable(["text", "line"], [["978\t014", "first"], ["x", "second"]])
    _, first, second = shown(Result(None, [table])).splitlines()
    assert first.index("first") == second.index("second")


def test_brackets_and_colons_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[bold]not bold[/bold] :smile:"
    assert text in on_screen(Result(None, [Line(text), TextTable([], [["a", text]])]), monkeypatch, TERM="dumb")


@pytest.mark.parametrize("steering", ["\x1b[2J", "\x9b2J", "\u202e", "\r", "\x08"])
def test_text_of_a_service_does_not_steer_the_terminal(steering: str) -> None:
    text = f"name{steering}!"
    output = shown(Result(None, [Line(text), TextTable(["name"], [[text]], text)]))
    assert steering[0] not in output
    assert output.count("name\ufffd") == 3


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_hidden(form: str) -> None:
    secret = 's3cr3t-"of\\the/connection'
    text = f"before {secret} after"
    result = Result(
        {text: [text, {"deep": (text,)}], "number": 12345}, [Line(text), TextTable(["column"], [[text]], text)]
    )
    output = shown(result, form, secrets=(secret, "1234"))
    assert "before *** after" in output
    assert "s3cr3t" not in output
    assert form == "text" or json.loads(output)["number"] == 12345


def test_text_for_another_program_is_left_alone_but_for_secrets() -> None:
    text = "main;run\t[x] 5\nmain;wait 7"
    assert shown(Result(text=text)) == text
    assert shown(Result(text=f"{text} s3cr3t"), secrets=("s3cr3t",)) == f"{text} ***"
