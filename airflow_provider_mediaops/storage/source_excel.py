"""Read a sheet of a workbook of Excel, row by row, with the values that were last computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.source_columns import no_column, plain
from airflow_provider_mediaops.storage.source_file import InvalidSourceError, SourceRow

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.source_file import SourceFile

# A workbook of Excel before 2007 begins like this, and so does a newer one with a password.
_OLD = b"\xd0\xcf\x11\xe0"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_OLD_BYTES = 8 * 1024 * 1024
_MAX_SHEETS = 20
# A workbook is an archive, and a kilobyte of it may hold a gigabyte of nothing. A sheet of a million rows has some
# 200 MB unpacked, twenty times as many as in the archive.
_MAX_UNPACKED, _ALWAYS_READ, _MAX_RATIO = 1 << 30, 32 << 20, 100
# The rows of sheets are read one by one; all other parts are kept in memory, such as the texts of the cells.
_SHEETS, _MAX_HELD = "/worksheets/", 256 << 20


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
                yield SourceRow(chosen.text(cells) or "", None, chosen.columns(cells), line)
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
            _check_size(file, opened)
            with closing(load_workbook(opened, read_only=True, data_only=True, keep_links=False)) as book:
                yield book
        except InvalidSourceError:
            raise
        except (BadZipFile, InvalidFileException, ParseError, zlib_error, KeyError, ValueError, EOFError) as error:
            raise file.error(f"it is not a whole workbook ({error})") from None


def _check_size(file: SourceFile, opened: Any) -> None:
    from zipfile import ZipFile

    with ZipFile(opened) as archive:
        parts = archive.infolist()
    packed, unpacked = (sum(getattr(part, name) for part in parts) for name in ("compress_size", "file_size"))
    held = sum(part.file_size for part in parts if _SHEETS not in part.filename)
    if unpacked > min(_MAX_UNPACKED, max(_ALWAYS_READ, _MAX_RATIO * packed)) or held > _MAX_HELD:
        raise file.error(f"it has {unpacked >> 20:,} MB unpacked, which is too much for a workbook; save it as .csv")
