"""Read a sheet of a workbook of Excel, row by row, with the values that were last computed."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.source_columns import first_filled, no_column, plain
from airflow_provider_mediaops.storage.source_file import InvalidSourceError, SourceRow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zipfile import ZipFile, ZipInfo

    from airflow_provider_mediaops.storage.source_file import SourceFile

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


def read_excel(file: SourceFile) -> Iterator[SourceRow]:
    """Read the first sheet that has the column; a row without any value is skipped."""
    with _opened_workbook(file) as book:
        lacking: list[str] = []
        for sheet in book.worksheets:
            rows = _cells(sheet)
            number, header = next(rows, (0, []))
            names = [text_of(value).strip() for value in header]
            if not file.has_column(names):
                problem = no_column(file.options.columns, names).removesuffix("; name it in isbn_column")
                lacking.append(f"in sheet {sheet.title!r}, {problem}")
                continue
            file.sheet, file.line = sheet.title, number
            chosen = file.choose(names)
            for line, cells in rows:
                file.line = line
                text = first_filled([text_of(cells[at]) for at in chosen.read if at < len(cells)])
                yield SourceRow(text or "", None, chosen.columns(cells), line)
            return
        raise file.error("; ".join(lacking[:_MAX_SHEETS]) or "it has no sheet with cells")


def _cells(sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    # Some programs note a size that is not that of the sheet.
    sheet.reset_dimensions()
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        if any(value is not None and value != "" for value in row):
            yield number, list(map(plain, row))


@contextmanager
def _opened_workbook(file: SourceFile) -> Iterator[Any]:
    """Open a workbook, and read it; what is not a whole one, or has a password, is refused."""
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

    with file.opened() as opened:
        if opened.read(len(_OLD)) == _OLD:
            if _ENCRYPTED in opened.read(_OLD_BYTES):
                raise file.error("it has a password; save it without")
            raise file.error("it is in the old form of Excel (.xls); save it as .xlsx")
        opened.seek(0)
        try:
            if problem := _too_large(opened):
                raise file.error(f"{problem}, so it is not a list; save it as .csv")
            with closing(load_workbook(opened, read_only=True, data_only=True, keep_links=False)) as book:
                yield book
        except InvalidSourceError:
            raise
        except (BadZipFile, InvalidFileException, ParseError, zlib_error, KeyError, ValueError, EOFError) as error:
            raise file.error(f"it is not a whole workbook ({error})") from None


def _too_large(opened: Any) -> str | None:
    """Return what is too large in a workbook once it is unpacked; None if nothing is."""
    from zipfile import ZipFile

    with ZipFile(opened) as archive:
        parts = archive.infolist()
        if (total := sum(part.file_size for part in parts)) > _MAX_UNPACKED:
            return f"it has {total >> 20:,} MB unpacked"
        for part in parts:
            is_sheet = part.filename.startswith("xl/worksheets/")
            times = part.file_size // max(part.compress_size, 1)
            many = part.file_size > _ALWAYS_READ and times > _MAX_RATIO
            if many or (part.file_size > _MAX_IN_MEMORY and not is_sheet):
                size = f"{part.file_size >> 20:,} MB unpacked, {times} times as many as packed"
                return f"its part {part.filename} has {size}"
            if is_sheet and part.file_size > _MAX_ROW_BYTES and not _has_rows(archive, part):
                return f"its part {part.filename} has a row of more than {_MAX_ROW_BYTES >> 20} MB"
    return None


def _has_rows(archive: ZipFile, part: ZipInfo) -> bool:
    """Return whether no row of a sheet is longer than any."""
    before, since = b"", 0
    with archive.open(part) as sheet:
        while block := sheet.read(_BLOCK_BYTES):
            # The name of an element may begin with a prefix.
            since = 0 if b"row>" in before[-4:] + block else since + len(block)
            if since > _MAX_ROW_BYTES:
                return False
            before = block
    return True
