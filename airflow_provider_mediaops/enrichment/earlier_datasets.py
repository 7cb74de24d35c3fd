"""Read the datasets of earlier enrichments, in all formats, for the look-ups that they hold."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mediaops.arguments import unsigned
from airflow_provider_mediaops.exceptions import InvalidArgumentError
from airflow_provider_mediaops.json_text import parse_json
from airflow_provider_mediaops.storage.files import path_of
from airflow_provider_mediaops.storage.formats import FORMATS, Format, format_of, json_line
from airflow_provider_mediaops.storage.path_checks import is_same_file
from airflow_provider_mediaops.storage.source_file import DATASET, InvalidSourceError
from airflow_provider_mediaops.storage.source_lines import GZIP
from airflow_provider_mediaops.storage.sources import file_info, read_rows, version_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_ISBN13 = 13
# How many times are kept that were parsed or written last.
_TIMES = 1_024
# The columns that say what a look-up is, in each format. A dataset is known by them.
_LOOKED_UP = {
    "jsonl": ("status", "error", "book", "fetched_at"),
    "csv": ("status", "error", "record", "fetched_at"),
    "parquet": ("status", "error", "record", "fetched_at"),
}


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
    """A dataset of an earlier enrichment; its version changes when the file does, and is None if there is none."""

    path: str
    format: Format
    version: str | None

    @classmethod
    def at(cls, path: str, format: Format) -> EarlierDataset:
        """Look at a dataset, without reading it."""
        try:
            info = file_info(path, "reuse")
        except FileNotFoundError:
            return cls(path, format, None)
        return cls(path, format, version_in(info))

    def check(self) -> None:
        """Make sure that the file, if there is one, is a dataset of an enrichment; only its beginning is read."""
        if self.version is not None:
            with self._naming():
                self._check_columns()

    def rows(self) -> Iterator[EarlierRow]:
        """Read the rows whose look-ups can be used: of books that were found, or are certain not to be there."""
        if self.version is None:
            return
        with self._naming():
            self._check_columns()
            for isbn13, row in self._rows():
                if (earlier := _usable(isbn13, row)) is not None:
                    yield earlier

    def _rows(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        keep = _LOOKED_UP[self.format]
        for source_row in read_rows(path_of(self.path), "isbn13", self.format, keep=keep):
            if source_row.error:
                raise InvalidSourceError(f"{DATASET.of(self.path)}: {source_row.error}")
            yield source_row.text, source_row.columns or {}

    def _check_columns(self) -> None:
        wanted = ("input", *_LOOKED_UP[self.format])
        # A table without one of the columns has no row. A record may lack any of its fields.
        keep = self.format == "jsonl" or wanted
        first = next(iter(read_rows(path_of(self.path), "isbn13", self.format, keep=keep)), None)
        if first is None:
            # An enrichment of no rows is an empty file, or a header.
            return
        if first.error:
            raise InvalidSourceError(f"{DATASET.of(self.path)}, line {first.error.removeprefix('Line ')}")
        missing = [name for name in wanted if name not in (first.columns or ())]
        if missing:
            raise InvalidSourceError(f"{DATASET.of(self.path)}: there is no {missing[0]!r} in it.")

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            yield
        except InvalidSourceError as error:
            self._check_unchanged()
            reason = str(error).removeprefix(f"{DATASET.name} ")
            raise InvalidArgumentError(
                f"reuse names a file that is not a whole dataset of EnrichIsbnsOperator. {reason} Name one that this "
                "operator has written, or leave reuse out."
            ) from error

    def _check_unchanged(self) -> None:
        """Raise if the file was replaced while it was read: parts of both may have come, so it may be whole."""
        if version_in(file_info(self.path, "reuse")) != self.version:
            what = f"reuse {unsigned(self.path)} was replaced while it was read; the next attempt reads the new one"
            raise OSError(errno.ESTALE, what)


def earlier_datasets(paths: Iterable[str], destination: str, format: str | None) -> list[EarlierDataset]:
    """Look at the datasets that an enrichment into a destination reuses."""
    return [EarlierDataset.at(path, reuse_format(path, destination, format)) for path in paths]


def reuse_format(path: str, destination: str, format: str | None) -> Format:
    """Return the format of an earlier dataset."""
    if format is not None and is_same_file(path, destination):
        return format_of(path, format)
    for known in FORMATS:
        if path.lower().endswith(f".{known}"):
            return known
    suffixes = ", ".join(f".{known}" for known in FORMATS)
    packed = " Decompress it first: this operator writes no compressed file." if path.lower().endswith(GZIP) else ""
    raise InvalidArgumentError(
        f"reuse {unsigned(path)!r} ends in none of {suffixes}: name a dataset of this operator.{packed}"
    )


# Rows of one run share their times.
@lru_cache(maxsize=_TIMES)
def fetched_text(fetched: int | None) -> str | None:
    """Return the time of a look-up as a row has it."""
    return None if fetched is None else datetime.fromtimestamp(fetched, timezone.utc).isoformat()


def fetched_seconds(text: object) -> int | None:
    """Return the time of a look-up in seconds since 1970."""
    return _seconds_of(text) if isinstance(text, str) and text else None


@lru_cache(maxsize=_TIMES)
def _seconds_of(text: str) -> int | None:
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
    if book is not None or not isinstance(text, str):
        return json_line(book) if isinstance(book, dict) else None
    if not isinstance(parsed := _parsed(text), dict):
        return None
    # Encoded anew: somebody may have laid it out otherwise.
    return json_line(parsed)


def _parsed(text: str) -> Any:
    # A spreadsheet may have cut a long record off: that book is asked for again.
    try:
        return parse_json(text.encode())
    except ValueError:
        return None
