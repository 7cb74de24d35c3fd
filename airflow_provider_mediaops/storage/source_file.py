"""One file while it is read: what was recognised in it, its columns, its rows and errors."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import filterfalse
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.http import MAX_REPLY_BYTES
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.progress import counted
from airflow_provider_mediaops.storage.errors import naming_path
from airflow_provider_mediaops.storage.paths import path_of
from airflow_provider_mediaops.storage.source_columns import (
    MAX_COLUMNS,
    find_columns,
    is_missing,
    kept_columns,
    no_column,
)

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.source_columns import ColumnType, Keep

#: The longest row of a list; a longer one would fill the memory.
MAX_LIST_ROW_BYTES = 16 << 20
#: The longest record in JSON: it may be as large as the reply in which it came, and the columns of a list may be as
#: large once more.
MAX_RECORD_BYTES = 2 * MAX_REPLY_BYTES
#: That of a dataset as this package writes it: in CSV a row takes four times as many bytes as in JSON, for the quotes
#: of the record are doubled, and its fields are columns, too.
MAX_DATASET_ROW_BYTES = 4 * MAX_RECORD_BYTES


class InvalidSourceError(InvalidArgumentError):
    """The file has another format, is not text, or lacks the column."""


# Not frozen: to make a frozen one takes twice as long, and a list has a million.
@dataclass(slots=True)
class SourceRow:
    """One row of a source."""

    text: str  # empty if it cannot be read
    reason: str | None = None  # why the row cannot be read
    columns: Mapping[str, Any] | None = None  # the other columns that are kept; None if none are
    line: int | None = None  # the last one if it has several; None in a format without lines
    file: str | None = None  # the name of its file in a list of several

    @property
    def error(self) -> str | None:
        """The reason in a sentence, with its place."""
        if self.reason is None:
            return None
        return f"{f'{self.file}: ' if self.file else ''}Line {self.line}: {self.reason}."


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a file is read. What is None is recognised."""

    # Those that are read, of which the first that is filled counts; None for those with a usual name of ISBNs.
    columns: Sequence[str] | None = None
    delimiter: str | None = None
    encoding: str | None = None
    keep: Keep = False  # which other columns the rows hold


class Chosen(NamedTuple):
    """The columns of a table that are read and kept: their places, of the latter with their names."""

    read: Sequence[int]
    kept: Sequence[tuple[int, str]]

    def row(self, cells: Sequence[Any], line: int | None = None) -> SourceRow:
        """Make a row of its cells, of which the last may be missing."""
        size = len(cells)
        texts = [text_of(cells[place]) for place in self.read if place < size]
        text = texts[0] if texts else ""
        if is_missing(text):
            text = next(filterfalse(is_missing, texts), text)
        kept = {name: cells[place] if place < size else None for place, name in self.kept}
        return SourceRow(text, None, kept or None, line)


class _OpenedFile(io.RawIOBase):
    """A file of a store as the readers of Python and of Parquet take it; it has the last error of the storage."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read(len(buffer))
        except Exception as error:
            self.error = error
            raise
        buffer[: len(data)] = data
        return len(data)

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(place, whence))


@dataclass(slots=True)
class SourceFile:
    """A file that is read, and what was recognised in it."""

    path: str
    format: str  # in the words of the suffixes; the path may have another one
    options: ReadOptions = field(default_factory=ReadOptions)
    is_dataset: bool = False  # written by this package: it is not compressed, and its rows may be longer
    is_part: bool = False  # one of several that make a table: an empty one has no rows
    # Those that are read, as the file writes them; none if a line is one text.
    columns: list[str] = field(default_factory=list)
    delimiter: str | None = None  # None in a format without
    encoding: str | None = None  # None in a format that is not text
    fallback_line: int | None = None  # the first line that is not UTF-8 and was read as cp1252
    sheet: str | None = None  # of a workbook
    rows: int = 0  # how many were read
    # Those that are kept, with their types; if they are more than a table can have, perhaps not all.
    kept: dict[str, ColumnType] = field(default_factory=dict)
    line: int = 0  # the last one that was read
    problem: str | None = None  # why it was not read to its end

    @property
    def role(self) -> str:
        """The word before its path in a message."""
        return "dataset" if self.is_dataset else "source"

    @property
    def name(self) -> str:
        """The file as messages name it."""
        return f"{self.role} {unsigned(self.path)}"

    @property
    def max_row_bytes(self) -> int:
        """The length of the longest row."""
        return MAX_DATASET_ROW_BYTES if self.is_dataset else MAX_LIST_ROW_BYTES

    @property
    def described(self) -> str:
        """What was recognised and how many rows were read, in words."""
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
        return f"{', '.join(parts)}; {counted(self.rows, 'row')}"

    @contextmanager
    def opened(self) -> Iterator[_OpenedFile]:
        """Open it for reading; until the block ends, an ``OSError`` names it."""
        path = path_of(self.path)
        with naming_path(self.name, "read"), path.fs.open(path.path, "rb") as file:
            yield _OpenedFile(file)

    def has_column(self, names: Sequence[str]) -> bool:
        """Return whether a table has a column that is read, or several of one name, which is an error of its own."""
        try:
            return bool(find_columns(self.options.columns, names))
        except ValueError:
            return True

    def choose(self, names: Sequence[str], *, may_lack: bool = False) -> Chosen:
        """
        Find the columns of a table that are read and kept, and note them; a record of JSON may lack any of them.

        Raise InvalidSourceError if one is missing, or there are two.
        """
        wanted, keep = self.options.columns, self.options.keep
        try:
            read = find_columns(wanted, names)
            kept = kept_columns(keep, names, wanted, read) if read or may_lack else []
        except ValueError as error:
            raise self.error(str(error)) from None
        there = [name for place, name in kept if place < len(names)]
        lacking = [name for place, name in kept if place == len(names)]
        if not may_lack and (lacking or not read):
            raise self.error(no_column(lacking[:1] if read else wanted, names))
        self.columns += [names[place] for place in read if names[place] not in self.columns]
        if len(self.kept) <= MAX_COLUMNS:
            self.kept.update(dict.fromkeys(there, "str"))
        return Chosen(read, kept)

    def error(self, problem: str, line: int | None = None) -> InvalidSourceError:
        """Return an error that names the file and a line, the last one if not given; of a workbook, sheet and row."""
        number = line or self.line
        sheet, word = ("", "line") if self.sheet is None else (f", sheet {self.sheet!r}", "row")
        place = f", {word} {number}" if number else ""
        return InvalidSourceError(f"{self.name}{sheet}{place}: {problem}.")

    def too_long(self, what: str) -> InvalidSourceError:
        """Return the error of a row that is longer than any of such a file."""
        size = self.max_row_bytes >> 20
        return self.error(f"the {what} is longer than {size} MB, so it is not a row of a {self.role}")
