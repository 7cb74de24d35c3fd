"""Read the datasets of earlier enrichments, in all formats, for the look-ups that they hold."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.files import path_of
from airflow_provider_mediaops.storage.formats import FORMATS, Format, format_of, json_line
from airflow_provider_mediaops.storage.path_checks import is_same_file
from airflow_provider_mediaops.storage.source_file import DATASET, InvalidSourceError, ReadOptions, SourceFile
from airflow_provider_mediaops.storage.source_list import read_rows, version_of

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.source_file import SourceRow

_ISBN13 = 13


class EarlierRow(NamedTuple):
    """
    A row of an earlier dataset whose look-up can be used.

    ``fetched`` is in seconds since 1970; if it is not known, the look-up is too old. ``record`` is JSON as this package
    writes it; None if there is no such book.
    """

    isbn13: str
    fetched: int | None
    record: bytes | None


@dataclass(frozen=True, slots=True)
class EarlierDataset:
    """A dataset of an earlier enrichment."""

    path: str
    format: Format

    def check(self) -> None:
        """Make sure that the file, if there is one, is a dataset of an enrichment; only its beginning is read."""
        with suppress(FileNotFoundError):
            next(self._read(), None)

    def rows(self) -> Iterator[EarlierRow]:
        """Read the rows whose look-ups can be used: of books that were found, or are certain not to be there."""
        for row in self._read():
            if (earlier := _usable(row.text, row.columns or {})) is not None:
                yield earlier

    def _read(self) -> Iterator[SourceRow]:
        file, version = SourceFile(self.path, self.format, DATASET, ReadOptions()), None
        # A dataset is known by these columns.
        keep = ("input", "status", "error", "book" if self.format == "jsonl" else "record", "fetched_at")
        try:
            version = version_of([file])
            yield from read_rows(path_of(self.path), "isbn13", self.format, keep=keep)
        except InvalidSourceError as error:
            if version and version_of([file]) != version:
                # Parts of both may have come, so each may be whole.
                what = f"reuse {unsigned(self.path)} was replaced while it was read; the next attempt reads the new one"
                raise OSError(errno.ESTALE, what) from None
            reason = str(error).removeprefix(f"{DATASET.name} ")
            raise InvalidArgumentError(
                f"reuse names a file that is not a whole dataset of EnrichIsbnsOperator. {reason} Name one that this "
                "operator has written, or leave reuse out."
            ) from error


def reuse_format(path: str, destination: str, format: str | None) -> Format:
    """Return the format of an earlier dataset."""
    if format is not None and is_same_file(path, destination):
        return format_of(path, format)
    for known in FORMATS:
        if path.lower().endswith(f".{known}"):
            return known
    suffixes = ", ".join(f".{known}" for known in FORMATS)
    raise InvalidArgumentError(
        f"reuse {unsigned(path)!r} ends in none of {suffixes}: name a dataset as this operator writes it."
    )


def fetched_text(fetched: int | None) -> str | None:
    """Return the time of a look-up as a row has it."""
    return None if fetched is None else datetime.fromtimestamp(fetched, timezone.utc).isoformat()


def fetched_seconds(text: object) -> int | None:
    """Return the time of a look-up in seconds since 1970; None if it cannot be read."""
    if not isinstance(text, str):
        return None
    try:
        # The last day of the calendar may not exist in UTC, but has a number of seconds: no row is to be young by it.
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        seconds = int((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp())
    except (ValueError, OverflowError):
        return None
    return seconds if seconds >= 0 else None


def _usable(isbn13: str, row: Mapping[str, Any]) -> EarlierRow | None:
    status, fetched = row.get("status"), fetched_seconds(row.get("fetched_at"))
    if len(isbn13) != _ISBN13 or not (isbn13.isascii() and isbn13.isdecimal()):
        return None
    if status == "not_found":
        # One with an error was only left out of a bulk reply.
        return None if row.get("error") else EarlierRow(isbn13, fetched, None)
    if status != "found":
        return None
    record = _record_of(row)
    return None if record is None else EarlierRow(isbn13, fetched, record)


def _record_of(row: Mapping[str, Any]) -> bytes | None:
    """Return the book's record as JSON on one line; None if there is none."""
    book, text = row.get("book"), row.get("record")
    if isinstance(text, str):
        # A spreadsheet may have cut a long record off: that book is asked for again.
        with suppress(ValueError):
            book = parse_json(text.encode())
    return json_line(book) if isinstance(book, dict) else None
