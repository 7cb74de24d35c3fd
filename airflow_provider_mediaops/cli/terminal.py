"""Write what a command found: as text, with colours in a terminal, or as JSON for a program."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TextIO, TypeAlias

from airflow_provider_mediaops.http.redaction import redacted

if TYPE_CHECKING:
    from rich.table import Table

# Characters that would steer the terminal or hide text, such as escape and marks of direction; tab and newline stay.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
# In a pipe or a file, no line is wrapped.
_ANY_WIDTH = 1_000_000

#: The name of the standard input, and of the standard output, among files.
STANDARD_INPUT = STANDARD_OUTPUT = "-"

Style: TypeAlias = Literal["good", "bad", "warning", "title", "plain"]
_COLOURS: dict[Style, str] = {"good": "green", "bad": "bold red", "warning": "yellow", "title": "bold", "plain": ""}


class Figure(str):
    """A number with its unit, such as ``80.0 %``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text, or several; what it means decides about its colour."""

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class TextTable:
    """
    A table; without columns, of names and their values.

    Numbers and figures stand on the right, and None is a dash. An empty line separates a table with a title from what
    is before it.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""


Part: TypeAlias = Line | TextTable


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found."""

    # Plain values for a program; None if the text is for a program, or there is nothing to say.
    document: Any = None
    # The same for people.
    parts: Sequence[Part] = ()
    # Whether a problem was found: then the exit code is 1.
    problem: bool = False
    # Text for another program, such as folded stacks: it is written as it is, without a line end of ours.
    text: str = ""


class Terminal:
    """The streams of a command: for its result, for progress and errors, and its input."""

    def __init__(
        self, output: TextIO | None = None, messages: TextIO | None = None, stdin: TextIO | None = None
    ) -> None:
        # Python has None for a stream that the shell closed.
        self._output = output or sys.stdout or io.StringIO()
        self._messages = messages or sys.stderr or io.StringIO()
        self._stdin = stdin or sys.stdin or io.TextIOWrapper(io.BytesIO())
        if isinstance(self._output, io.TextIOWrapper) and self._output.errors == "strict":
            # A result in an encoding with few characters is better than a half of it.
            self._output.reconfigure(errors="backslashreplace")
        self._secrets: set[str] = set()

    def hide(self, secrets: Iterable[str]) -> None:
        """Replace these passwords, keys and tokens in all that is written from now on."""
        self._secrets.update(secrets)

    def say(self, text: str, style: Style = "plain") -> None:
        """Write a message, which is not part of the result, to the standard error."""
        self._write(self._messages, [Line(text, style)])

    def input_bytes(self) -> BinaryIO:
        """Return the standard input."""
        return self._stdin.buffer

    def show(self, result: Result, form: str) -> None:
        """Write the result to the standard output, in a form of the option ``--output``."""
        if result.text:
            self._output.write(self._redacted(result.text))
        elif form == "json":
            document = json.dumps(self._without_secrets(result.document), indent=2, ensure_ascii=False)
            self._output.write(f"{document}\n")
        else:
            self._write(self._output, result.parts)
        self._output.flush()

    def _write(self, stream: TextIO, parts: Iterable[Part]) -> None:
        from rich.console import Console

        written, is_screen = io.StringIO(), stream.isatty()
        # rich itself heeds NO_COLOR, TERM and the width of a terminal.
        console = Console(
            file=written,
            force_terminal=is_screen,
            width=None if is_screen else _ANY_WIDTH,
            highlight=False,
            markup=False,
            emoji=False,
        )
        for part in parts:
            if isinstance(part, Line):
                console.print(self._shown(part.text), style=_COLOURS[part.style], soft_wrap=True)
                continue
            if part.title:
                before = "\n" if written.tell() else ""
                console.print(before + self._shown(part.title), style=_COLOURS["title"], soft_wrap=True)
            console.print(self._table(part))
        stream.writelines(f"{line.rstrip()}\n" for line in written.getvalue().splitlines())

    def _table(self, part: TextTable) -> Table:
        from rich.table import Table

        has_head = bool(part.columns)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=has_head)
        for at, column in enumerate(part.columns or ("", "")):
            known = [row[at] for row in part.rows if row[at] is not None]
            are_numbers = bool(known) and all(map(_is_number, known))
            table.add_column(column, justify="right" if are_numbers else "left", overflow="fold")
        for row in part.rows:
            table.add_row(*(self._shown(_cell(value)) for value in row))
        return table

    def _shown(self, text: str) -> str:
        return _STEERING.sub("\ufffd", self._redacted(text))

    def _redacted(self, text: str) -> str:
        # A long text is redacted as a whole: nothing is cut off.
        return redacted(text, self._secrets, longest=len(text))

    def _without_secrets(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._redacted(value)
        if isinstance(value, dict):
            return {self._without_secrets(name): self._without_secrets(below) for name, below in value.items()}
        if isinstance(value, list | tuple):
            return [self._without_secrets(below) for below in value]
        return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Figure) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    # A tab has another width in each column.
    return "-" if value is None else str(value).expandtabs()
