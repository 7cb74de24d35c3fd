"""Read tables that are not text, on any storage: a sheet of a workbook of Excel, and the row groups of Parquet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, time, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.source_columns import no_column
from airflow_provider_mediaops.storage.source_file import InvalidSourceError

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.source_columns import ColumnType
    from airflow_provider_mediaops.storage.source_file import SourceFile, SourceRow

# A workbook of Excel before 2007 begins like this, and so does a newer one with a password.
_OLD = b"\xd0\xcf\x11\xe0"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_OLD_BYTES = 8 * 1024 * 1024
# A workbook is an archive, and a kilobyte of it may hold a gigabyte of nothing. The rows of sheets are read one by one,
# but a row may be as large as its sheet; all other parts are kept in memory, such as the texts of the cells.
_MAX_UNPACKED, _SHEETS, _MAX_HELD = 1 << 30, "/worksheets/", 256 << 20
_MAX_SHEETS = 20

_ROWS_A_BATCH = 1_000


def read_excel(file: SourceFile) -> Iterator[SourceRow]:
    """Read the first sheet that has the column, with the values that were last computed; empty rows are skipped."""
    with _opened_workbook(file) as book:
        lacking: list[str] = []
        for sheet in book.worksheets:
            rows = _cells(file, sheet)
            names = [text_of(value).strip() for value in next(rows, [])]
            if file.has_column(names):
                file.sheet = sheet.title
                chosen = file.choose(names)
                yield from (chosen.row(cells, file.line) for cells in rows)
                return
            # The advice would come once for each sheet.
            problem = no_column(file.options.columns, names).removesuffix("; name it in isbn_column")
            lacking.append(f"in sheet {sheet.title!r}, {problem}")
        file.line = 0
        raise file.error("; ".join(lacking[:_MAX_SHEETS]) or "it has no sheet with cells")


def _cells(file: SourceFile, sheet: Any) -> Iterator[list[Any]]:
    # Some programs note a size that is not that of the sheet.
    sheet.reset_dimensions()
    for file.line, row in enumerate(sheet.iter_rows(values_only=True), 1):
        if any(value is not None and value != "" for value in row):
            yield list(map(_plain, row))


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
    from zipfile import BadZipFile, ZipFile
    from zlib import error as zlib_error

    with file.opened() as opened:
        if opened.read(len(_OLD)) == _OLD:
            if _ENCRYPTED in opened.read(_OLD_BYTES):
                raise file.error("it has a password; save it without")
            raise file.error("it is in the old form of Excel (.xls); save it as .xlsx")
        opened.seek(0)
        try:
            with ZipFile(opened) as archive:
                sizes = {part.filename: part.file_size for part in archive.infolist()}
            held, unpacked = sum(size for name, size in sizes.items() if _SHEETS not in name), sum(sizes.values())
            if held > _MAX_HELD or unpacked > _MAX_UNPACKED:
                what = f"it has {unpacked >> 20:,} MB unpacked, which is too much for a workbook"
                raise file.error(f"{what}; save it as .csv")
            with closing(load_workbook(opened, read_only=True, data_only=True, keep_links=False)) as book:
                yield book
        except InvalidSourceError:
            raise
        except (BadZipFile, InvalidFileException, ParseError, zlib_error, KeyError, ValueError, EOFError) as error:
            raise file.error(f"it is not a whole workbook ({error})") from None


def read_parquet(file: SourceFile) -> Iterator[SourceRow]:
    """Read columns of a Parquet file."""
    with _opened_parquet(file) as table:
        schema = table.schema_arrow
        chosen = file.choose(schema.names)
        kept = dict(chosen.kept)
        _check_digits(file, [schema.field(place) for place in chosen.read])
        file.kept = {name: _kind(schema.field(place).type) for place, name in chosen.kept}
        needed = {*chosen.read, *kept}
        # Columns that share a name cannot be told apart once some are left out.
        is_whole = file.options.keep is True or len(set(schema.names)) < len(schema)
        wanted = None if is_whole else [schema.names[place] for place in sorted(needed)]
        for group in range(table.metadata.num_row_groups):
            for batch in table.iter_batches(_ROWS_A_BATCH, row_groups=[group], columns=wanted, use_threads=False):
                cells = [[None] * len(batch)] * len(schema)
                for place in needed:
                    # By its name: pyarrow reads a part of another column as well if the path of that part is this name.
                    column = batch.column(place if is_whole else schema.names[place])
                    cells[place] = _values(file, schema.names[place], column, is_kept=place in kept)
                yield from map(chosen.row, zip(*cells, strict=True))


def _check_digits(file: SourceFile, columns: list[Any]) -> None:
    import pyarrow as pa

    for column in columns:
        if pa.types.is_float16(column.type) or pa.types.is_float32(column.type):
            # One number in ten would become that of another book.
            problem = f"column {column.name!r} has numbers of type {column.type}, which holds 7 digits of the 13"
            raise file.error(f"{problem}. Write them as texts")


def _kind(type: Any) -> ColumnType:
    import pyarrow as pa

    # An unsigned integer of 64 bits fits no signed column of a table.
    if pa.types.is_integer(type) and type != pa.uint64():
        return "int"
    return "float" if pa.types.is_floating(type) else "str"


def _values(file: SourceFile, name: str, column: Any, *, is_kept: bool) -> list[Any]:
    """Return the values of a column, as JSON has them if they are kept."""
    import pyarrow as pa

    type = column.type
    try:
        if pa.types.is_timestamp(type):
            # The times of Python know no nanoseconds.
            column = column.cast(pa.timestamp("us", type.tz), safe=False)
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError, KeyError, pa.ArrowException) as error:
        # A time zone that is not known is a KeyError.
        use, advice = ("kept", "Leave it out of keep_columns") if is_kept else ("read", "Write them as texts")
        problem = f"column {name!r} has values of type {type} that cannot be {use} ({error})"
        raise file.error(f"{problem}. {advice}") from None
    return list(map(_plain, values)) if is_kept else values


def _plain(value: Any) -> Any:
    """Return a value of a file as JSON has it, which knows neither NaN and infinity nor times and bytes."""
    if value is None or isinstance(value, (str, int, float)):
        return None if isinstance(value, float) and not math.isfinite(value) else value
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return text_of(value) if isinstance(value, bytes) else str(value)


@contextmanager
def _opened_parquet(file: SourceFile) -> Iterator[Any]:
    """Open a Parquet file, and read it; what is not a whole one is refused."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise PermanentError(
            f"Reading {file.name} needs pyarrow, which is not installed here: install this provider's extra 'parquet'."
        ) from None
    with file.opened() as opened:
        try:
            with pq.ParquetFile(opened, pre_buffer=False) as table:
                yield table
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            # pyarrow raises OSError for damaged pages, and UnicodeDecodeError for a damaged name of a column.
            if opened.error is not None:
                raise opened.error from None
            raise file.error(f"it is not a whole Parquet file ({error})") from None
