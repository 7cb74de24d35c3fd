"""Write what a command found: with rich in a terminal, as plain text in a pipe, as JSON for a program."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from airflow_provider_mediaops.cli.result import Fields, Line, Result, TextTable, Verbatim
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.http.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from airflow_provider_mediaops.cli.result import Part, Style

# Characters that would steer the terminal or hide text, such as escape and marks of direction; tab and newline stay.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_COLOURS: dict[Style, str] = {"good": "green", "bad": "bold red", "warning": "yellow", "title": "bold", "plain": ""}
_GAP = "  "


class Terminal:
    """
    The streams of a command.

    :param output: where the result goes; the standard output if not given.
    :param messages: where progress, questions and errors go; the standard error if not given.
    :param answers: where answers to questions come from; the standard input if not given.
    """

    def __init__(
        self, output: TextIO | None = None, messages: TextIO | None = None, answers: TextIO | None = None
    ) -> None:
        self.output = output or sys.stdout
        self._messages = messages or sys.stderr
        self.answers = answers or sys.stdin
        self._secrets: set[str] = set()

    def hide(self, secrets: Iterable[str]) -> None:
        """
        Replace these in all that is written from now on.

        :param secrets: passwords, keys and tokens that the command has met.
        """
        self._secrets.update(secrets)

    def say(self, text: str, style: Style = "plain") -> None:
        """
        Write a message, which is no part of the result, to the standard error.

        :param text: one line, or several.
        :param style: what it means.
        """
        _write(self._messages, Line(self._shown(text), style))

    def confirm(self, question: str, *, yes: bool) -> bool:
        """
        Ask before something is changed.

        :param question: what will be done, as a question.
        :param yes: whether ``--yes`` was given; then nothing is asked.
        :returns: whether to do it.
        :raises InvalidArgumentError: if nobody is there to answer.
        """
        if yes:
            return True
        if not self.answers.isatty():
            raise InvalidArgumentError(f"{question} Nobody can answer here: add --yes to do it.")
        self._messages.write(f"{self._shown(question)} [y/N] ")
        self._messages.flush()
        return self.answers.readline().strip().lower() in {"y", "yes"}

    def show(self, result: Result, form: str) -> None:
        """
        Write the result to the standard output.

        :param result: the result.
        :param form: ``json`` or ``yaml`` for the document, ``plain`` for text without colours; any other for text.
        """
        if form in _DOCUMENTS:
            self.output.write(_DOCUMENTS[form](self._without_secrets(result.document)))
        else:
            for part in result.parts:
                _write(self.output, self._shown_part(part), coloured=form != "plain")
        self.output.flush()

    def _shown(self, text: str) -> str:
        # A long text is redacted as a whole: nothing is cut off.
        return _STEERING.sub("\ufffd", redacted(text, self._secrets, longest=len(text)))

    def _shown_part(self, part: Part) -> Part:
        if isinstance(part, Line):
            return Line(self._shown(part.text), part.style)
        if isinstance(part, Verbatim):
            return Verbatim(redacted(part.text, self._secrets, longest=len(part.text)))
        if isinstance(part, Fields):
            values = {name: self._shown(str(value)) for name, value in part.values.items() if value is not None}
            return Fields(dict[str, object](values), self._shown(part.title), part.style)
        rows = [[value if _is_number(value) else self._shown(_cell(value)) for value in row] for row in part.rows]
        return TextTable(part.columns, rows, self._shown(part.title))

    def _without_secrets(self, value: Any) -> Any:
        if isinstance(value, str):
            return redacted(value, self._secrets, longest=len(value))
        if isinstance(value, dict):
            return {self._without_secrets(name): self._without_secrets(below) for name, below in value.items()}
        if isinstance(value, list | tuple):
            return [self._without_secrets(below) for below in value]
        return value


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _yaml(document: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(document, allow_unicode=True, sort_keys=False)
    return text


_DOCUMENTS = {"json": _json, "yaml": _yaml}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


def _write(stream: TextIO, part: Part, *, coloured: bool = True) -> None:
    if isinstance(part, Verbatim):
        stream.write(part.text)
    elif coloured and stream.isatty():
        _write_rich(stream, part)
    else:
        stream.writelines(f"{line.rstrip()}\n" for line in plain_lines(part))


def plain_lines(part: Line | Fields | TextTable) -> list[str]:
    """
    Return a part as plain text, for a pipe or a file: of any width, without colours.

    :param part: the part.
    """
    if isinstance(part, Line):
        return part.text.split("\n")
    title = [part.title] if part.title else []
    if isinstance(part, Fields):
        width = max((len(name) for name in part.values), default=0)
        return [*title, *(f"{_GAP}{name:<{width}}{_GAP}{value}" for name, value in part.values.items())]
    cells = [list(part.columns), *([_cell(value) for value in row] for row in part.rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(part.columns))]
    on_right = _numeric_columns(part)
    return [
        *title,
        *(
            _GAP.join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(row, widths, on_right, strict=True)
            )
            for row in cells
        ),
    ]


def _numeric_columns(table: TextTable) -> list[bool]:
    return [
        any(_is_number(row[at]) for row in table.rows)
        and all(_is_number(row[at]) or row[at] in {None, "-"} for row in table.rows)
        for at in range(len(table.columns))
    ]


def _write_rich(stream: TextIO, part: Line | Fields | TextTable) -> None:
    from rich.console import Console

    # rich itself heeds NO_COLOR, TERM and the terminal's width.
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    for renderable in _rich_forms(part):
        console.print(renderable, soft_wrap=isinstance(part, Line))


def _rich_forms(part: Line | Fields | TextTable) -> list[RenderableType]:
    from rich.table import Table as RichTable
    from rich.text import Text

    if isinstance(part, Line):
        return [Text(part.text, _COLOURS[part.style])]
    if isinstance(part, Fields):
        title = [Text(part.title, _COLOURS[part.style])] if part.title else []
        grid = RichTable.grid(padding=(0, 2))
        grid.add_column(style="dim")
        grid.add_column(overflow="fold")
        for name, value in part.values.items():
            grid.add_row(Text(f"{_GAP}{name}"), Text(str(value)))
        return [*title, grid]
    titled = [Text(part.title, _COLOURS["title"])] if part.title else []
    table = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column, right in zip(part.columns, _numeric_columns(part), strict=True):
        table.add_column(Text(column), justify="right" if right else "left", overflow="fold")
    for row in part.rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    return [*titled, table]
