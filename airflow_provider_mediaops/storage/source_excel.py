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

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.file_role import FileRole
    from airflow_provider_mediaops.storage.source_facts import FileFacts, ReadOptions

# A workbook of Excel before 2007 begins like this, and so does a newer one with a password.
_OLD = b"\xd0\xcf\x11\xe0"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_OLD_BYTES = 8 * 1024 * 1024
_MAX_SHEETS = 20


def read_excel(path: ObjectStoragePath, role: FileRole, options: ReadOptions, facts: FileFacts) -> Iterator[SourceRow]:
    """
    Read the first sheet that has the column.

    :param path: the file.
    :param role: what it is to the user.
    :param options: which columns are read.
    :param facts: what is recognised is noted in these.
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
                raise InvalidSourceError(f"{role.name} {path}, sheet {sheet.title!r}, row {number}: {error}.") from None
            facts.sheet, facts.columns = sheet.title, [names[place] for place in places]
            facts.kept = dict.fromkeys((name for _, name in kept), "str")
            facts.too_many = check_number(facts.kept)
            yield from _rows_of(rows, places, kept)
            return
        listed = "; ".join(lacking[:_MAX_SHEETS]) or "it has no sheet with cells"
        raise InvalidSourceError(f"{role.name} {path}: {listed}.")


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
            raise InvalidSourceError(f"{role.name} {path}: {problem}{'' if is_encrypted else '; save it as .xlsx'}.")
        file.seek(0)
        try:
            with closing(load_workbook(file, read_only=True, data_only=True, keep_links=False)) as book:
                yield book
        except InvalidSourceError:
            raise
        except (BadZipFile, InvalidFileException, ParseError, zlib_error, KeyError, ValueError, EOFError) as error:
            raise InvalidSourceError(f"{role.name} {path}: it is no whole workbook ({error}).") from None
