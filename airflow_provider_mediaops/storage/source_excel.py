"""Read a sheet of a workbook of Excel, row by row, with the values that were last computed."""

from __future__ import annotations

from contextlib import closing, contextmanager
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.source_columns import (
    check_number,
    find_columns,
    finite,
    is_missing,
    left_out,
    no_column,
    places_of,
)
from airflow_provider_mediaops.storage.source_lines import InvalidSourceError, SourceRow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zipfile import ZipFile, ZipInfo

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.file_role import FileRole
    from airflow_provider_mediaops.storage.source_facts import FileFacts, ReadOptions

# A workbook of Excel before 2007 begins like this, and so does a newer one with a password.
_OLD = b"\xd0\xcf\x11\xe0"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_OLD_BYTES = 8 * 1024 * 1024
_MAX_SHEETS = 20
# A workbook is an archive, and a kilobyte of it may hold a gigabyte of nothing. A sheet of a million rows has some
# 200 MB unpacked, twenty times as many as in the archive; the texts of all cells are read into memory.
_MAX_UNPACKED, _MAX_IN_MEMORY = 1 << 30, 256 << 20
_ALWAYS_READ, _MAX_RATIO = 32 << 20, 100
# All cells of a row are in memory.
_MAX_ROW_BYTES, _BLOCK_BYTES = 4 << 20, 1 << 16


def read_excel(path: ObjectStoragePath, role: FileRole, options: ReadOptions, facts: FileFacts) -> Iterator[SourceRow]:
    """
    Read the first sheet that has the column.

    :returns: the rows; a row without any value is skipped.
    :raises OSError: if the file cannot be read; the message names it.
    :raises InvalidSourceError: if it is no whole workbook, has a password, or lacks a column.
    :raises PermanentError: if openpyxl is not installed.
    """
    facts.format = "xlsx"
    with _opened_workbook(path, role) as book:
        lacking: list[str] = []
        for sheet in book.worksheets:
            rows = _cells(sheet)
            number, header = next(rows, (0, []))
            names = [text_of(value).strip() for value in header]
            try:
                places = find_columns(options.columns, names)
                if not places:
                    problem = no_column(options.columns, names).removesuffix("; name it in isbn_column")
                    lacking.append(f"in sheet {sheet.title!r}, {problem}")
                    continue
                kept = places_of(names, left_out(options.columns, names, places), options.keep)
            except ValueError as error:
                raise InvalidSourceError(f"{role.of(path)}, sheet {sheet.title!r}, row {number}: {error}.") from None
            facts.sheet, facts.columns = sheet.title, [names[place] for place in places]
            facts.kept = dict.fromkeys((name for _, name in kept), "str")
            facts.too_many = check_number(facts.kept)
            yield from _rows_of(rows, places, kept)
            return
        listed = "; ".join(lacking[:_MAX_SHEETS]) or "it has no sheet with cells"
        raise InvalidSourceError(f"{role.of(path)}: {listed}.")


def _rows_of(
    rows: Iterator[tuple[int, list[Any]]], places: list[int], kept: list[tuple[int, str]]
) -> Iterator[SourceRow]:
    for number, cells in rows:
        texts = [text_of(_plain(cells[place])) if place < len(cells) else "" for place in places]
        text = next((each for each in texts if not is_missing(each)), texts[0])
        columns = None
        if kept:
            columns = {name: _plain(cells[at]) if at < len(cells) else None for at, name in kept}
        yield SourceRow(text, None, columns, number)


def _cells(sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    # Some programs note a size that is not that of the sheet.
    sheet.reset_dimensions()
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        cells = list(row)
        if any(value is not None and value != "" for value in cells):
            yield number, cells


def _plain(value: Any) -> Any:
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    return value.total_seconds() if isinstance(value, timedelta) else finite(value)


@contextmanager
def _opened_workbook(path: ObjectStoragePath, role: FileRole) -> Iterator[Any]:
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError:
        raise PermanentError(
            "Reading .xlsx needs openpyxl, which is not installed here: install this provider's extra 'excel', or "
            "save the list as .csv."
        ) from None
    from xml.etree.ElementTree import ParseError
    from zipfile import BadZipFile
    from zlib import error as zlib_error

    with role.naming(path), path.fs.open(path.path, "rb") as file:
        if file.read(len(_OLD)) == _OLD:
            is_encrypted = _ENCRYPTED in file.read(_OLD_BYTES)
            problem = "it has a password; save it without" if is_encrypted else "it is in the old form of Excel (.xls)"
            raise InvalidSourceError(f"{role.of(path)}: {problem}{'' if is_encrypted else '; save it as .xlsx'}.")
        file.seek(0)
        try:
            _check_size(file, role.of(path), role.noun)
            with closing(load_workbook(file, read_only=True, data_only=True, keep_links=False)) as book:
                yield book
        except InvalidSourceError:
            raise
        except (BadZipFile, InvalidFileException, ParseError, zlib_error, KeyError, ValueError, EOFError) as error:
            raise InvalidSourceError(f"{role.of(path)}: it is no whole workbook ({error}).") from None


def _check_size(file: Any, name: str, noun: str) -> None:
    """Raise if a part of a workbook is too large once it is unpacked."""
    if problem := _is_too_much(file):
        raise InvalidSourceError(f"{name}: {problem}, so it is no {noun}; save it as .csv.")


def _is_too_much(file: Any) -> str | None:
    """Return what is too large in a workbook once it is unpacked; None if nothing is."""
    from zipfile import ZipFile

    with ZipFile(file) as parts:
        infos = parts.infolist()
        if (total := sum(part.file_size for part in infos)) > _MAX_UNPACKED:
            return f"it has {total >> 20:,} MB unpacked"
        for part in infos:
            is_sheet = part.filename.startswith("xl/worksheets/")
            times = part.file_size // max(part.compress_size, 1)
            many = part.file_size > _ALWAYS_READ and times > _MAX_RATIO
            if many or (part.file_size > _MAX_IN_MEMORY and not is_sheet):
                size = f"{part.file_size >> 20:,} MB unpacked, {times} times as many as packed"
                return f"its part {part.filename} has {size}"
            if is_sheet and part.file_size > _MAX_ROW_BYTES and not _has_rows(parts, part):
                return f"its part {part.filename} has a row of more than {_MAX_ROW_BYTES >> 20} MB"
    return None


def _has_rows(parts: ZipFile, part: ZipInfo) -> bool:
    """Return whether no row of a sheet is longer than any."""
    before, since = b"", 0
    with parts.open(part) as sheet:
        while block := sheet.read(_BLOCK_BYTES):
            # The name of an element may begin with a prefix.
            since = 0 if b"row>" in before[-4:] + block else since + len(block)
            if since > _MAX_ROW_BYTES:
                return False
            before = block
    return True
