"""How a list is read, and what its reader has recognised: the columns, the delimiter, the encoding, the sheet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_mediaops.storage.source_columns import ColumnType, Keep


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """
    How a file of a list is read.

    :param columns: the columns that are read, of which the first that is filled counts; None for those with a usual
        name of ISBNs.
    :param delimiter: the character between the cells of a line; None to recognise it.
    :param encoding: the encoding of a text; None to recognise it.
    :param keep: which other columns the rows hold.
    """

    columns: Sequence[str] | None = None
    delimiter: str | None = None
    encoding: str | None = None
    keep: Keep = False


@dataclass(slots=True)
class FileFacts:
    """
    What was recognised in a file.

    :param path: the file.
    :param format: its format, in the words of the suffixes.
    :param columns: the columns that are read, as the file writes them; none if a line is one text.
    :param delimiter: the character between the cells of a line; None in a format without.
    :param encoding: the encoding of its text; None in a format that is no text.
    :param fallback_line: the first line that is no UTF-8 and was read as cp1252; None if there is none.
    :param sheet: the sheet of a workbook.
    :param rows: how many rows were read.
    :param kept: the columns that are kept, with their types.
    :param too_many: an error if those are more than a table can have.
    """

    path: str
    format: str
    columns: list[str] = field(default_factory=list)
    delimiter: str | None = None
    encoding: str | None = None
    fallback_line: int | None = None
    sheet: str | None = None
    rows: int = 0
    kept: Mapping[str, ColumnType] = field(default_factory=dict)
    too_many: str | None = None

    @property
    def described(self) -> str:
        """The facts in words."""
        words = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
        parts = ["tsv" if self.delimiter == "\t" else self.format]
        if self.sheet is not None:
            parts.append(f"sheet {self.sheet!r}")
        if self.columns:
            parts.append(f"column{'s'[: len(self.columns) > 1]} {', '.join(map(repr, self.columns))}")
        if self.delimiter is not None:
            parts.append(f"delimiter {words.get(self.delimiter, repr(self.delimiter))}")
        if self.encoding is not None:
            parts.append(f"encoding {self.encoding}")
        return ", ".join(parts)
