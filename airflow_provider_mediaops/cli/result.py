"""What a command found: a document for programs, and the same in parts for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

Style: TypeAlias = Literal["good", "bad", "warning", "title", "plain"]


@dataclass(frozen=True, slots=True)
class Line:
    """
    A line of text.

    :param text: the line.
    :param style: what it means; it decides about the colour in a terminal.
    """

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True)
class Fields:
    """
    Names with their values, one a line.

    :param values: the names with their values; None is left out.
    :param title: a line above.
    :param style: what the title means.
    """

    values: dict[str, object]
    title: str = ""
    style: Style = "title"


@dataclass(frozen=True, slots=True)
class TextTable:
    """
    A table. Numbers stand on the right of their column.

    :param columns: the titles of the columns.
    :param rows: the rows, each with a value for each column; None is shown as a dash.
    :param title: a line above.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """
    Text for another program, such as folded stacks: it is written as it is, without colours or a line end of ours.

    :param text: the text.
    """

    text: str


Part: TypeAlias = Line | Fields | TextTable | Verbatim


@dataclass(frozen=True, slots=True)
class Result:
    """
    What a command found.

    :param document: plain values for ``--output json``.
    :param parts: the same for people.
    :param problem: whether a problem was found: then the exit code is 1.
    """

    document: Any
    parts: Sequence[Part] = field(default=())
    problem: bool = False
