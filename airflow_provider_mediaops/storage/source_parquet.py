"""Read columns of a Parquet file on any storage, by its row groups."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.source_columns import column_error, places_of
from airflow_provider_mediaops.storage.source_lines import InvalidSourceError, SourceRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.file_role import FileRole
    from airflow_provider_mediaops.storage.source_columns import ColumnType, Keep

    # Names a column and the type of its values in an error.
    _Naming = Callable[..., AbstractContextManager[None]]

_ROWS_A_BATCH = 1_000
# An unsigned integer of 64 bits fits no signed column of a table.
_INT_BITS = 64


def read_parquet(path: ObjectStoragePath, role: FileRole, column: str, skip: int, keep: Keep) -> Iterator[SourceRow]:
    """
    Read columns of a Parquet file lazily.

    :param path: the file.
    :param role: what it is to the user.
    :param column: the column that is read as text.
    :param skip: how many rows to skip.
    :param keep: which other columns are kept.
    :returns: the rows.
    :raises OSError: if the file cannot be read; the message names it.
    :raises InvalidSourceError: if it is no whole Parquet file, or lacks a column.
    :raises PermanentError: if pyarrow is not installed.
    """
    with _opened_parquet(path, role, column) as file:
        names = file.schema_arrow.names
        places = _places(path, role, names, column, keep)
        wanted = list(dict.fromkeys(names[place] for place in sorted({names.index(column), *(p for p, _ in places)})))
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if rows <= skip:
                skip -= rows
                continue
            for batch in file.iter_batches(_ROWS_A_BATCH, row_groups=[group], columns=wanted, use_threads=False):
                if skip < batch.num_rows:
                    yield from _rows_of(batch.slice(skip), column, places, names, partial(_naming_values, path, role))
                skip = max(0, skip - batch.num_rows)


def count_parquet(path: ObjectStoragePath, role: FileRole, column: str) -> int:
    """
    Return the number of rows, which the metadata of the file holds.

    :param path: the file.
    :param role: what it is to the user.
    :param column: the column that it must have.
    :raises OSError: as :func:`read_parquet`.
    :raises InvalidSourceError: as :func:`read_parquet`.
    :raises PermanentError: as :func:`read_parquet`.
    """
    with _opened_parquet(path, role, column) as file:
        return int(file.metadata.num_rows)


def parquet_columns(path: ObjectStoragePath, role: FileRole, column: str, keep: Keep) -> dict[str, ColumnType]:
    """
    Return the columns that are kept, with their types in a table.

    :param path: the file.
    :param role: what it is to the user.
    :param column: the column that is read.
    :param keep: which others are kept.
    :returns: integers and floats keep their type; everything else is a text.
    :raises OSError: as :func:`read_parquet`.
    :raises InvalidSourceError: as :func:`read_parquet`.
    :raises PermanentError: as :func:`read_parquet`.
    """
    with _opened_parquet(path, role, column) as file:
        schema = file.schema_arrow
        places = _places(path, role, schema.names, column, keep)
        return {name: _kind(schema.field(place).type) for place, name in places}


def _places(
    path: ObjectStoragePath, role: FileRole, names: list[str], column: str, keep: Keep
) -> list[tuple[int, str]]:
    places, error = places_of(names, column, keep)
    if error:
        raise InvalidSourceError(f"{role.name} {path}: {error}.")
    return places


def _kind(type: Any) -> ColumnType:
    import pyarrow as pa

    if pa.types.is_integer(type) and not (pa.types.is_unsigned_integer(type) and type.bit_width == _INT_BITS):
        return "int"
    return "float" if pa.types.is_floating(type) else "str"


def _rows_of(
    batch: Any, column: str, places: list[tuple[int, str]], names: list[str], naming: _Naming
) -> Iterator[SourceRow]:
    read = batch.column(batch.schema.names.index(column))
    with naming(column, read.type, is_kept=False):
        texts = read.to_pylist()
    if not places:
        yield from map(SourceRow, map(text_of, texts))
        return
    kept = [_values(names[place], batch.column(_place_in(batch, names, place)), naming) for place, _ in places]
    labels = [name for _, name in places]
    for text, *values in zip(texts, *kept, strict=True):
        yield SourceRow(text_of(text), columns=dict(zip(labels, values, strict=True)))


def _place_in(batch: Any, names: list[str], place: int) -> int:
    """Return where a column of the file is in a batch. Columns that share a name are read together, in their order."""
    same = [at for at, name in enumerate(batch.schema.names) if name == names[place]]
    return same[names[:place].count(names[place])]


def _values(name: str, column: Any, naming: _Naming) -> list[Any]:
    with naming(name, column.type, is_kept=True):
        return [_plain(value) for value in _in_microseconds(column).to_pylist()]


@contextmanager
def _naming_values(path: ObjectStoragePath, role: FileRole, name: str, kind: Any, *, is_kept: bool) -> Iterator[None]:
    import pyarrow as pa

    # A time zone that is not known is a KeyError.
    try:
        yield
    except (ValueError, OverflowError, KeyError, pa.ArrowException) as error:
        use = "kept" if is_kept and role.is_list else "read"
        advice = "Leave it out of keep_columns, or set keep_columns=False." if is_kept else "Write them as texts."
        what = f"column {name!r} has values of type {kind} that cannot be {use} ({error})"
        raise InvalidSourceError(f"{role.name} {path}: {what}. {role.advice(advice)}".rstrip()) from None


def _in_microseconds(column: Any) -> Any:
    """Return a column with the times that Python has, which know no nanoseconds."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_time64(kind):
        return column.cast(pa.time64("us"), safe=False)
    return column.cast(pa.duration("us"), safe=False) if pa.types.is_duration(kind) else column


def _plain(value: Any) -> Any:
    """Return a value of Parquet as JSON has it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


@contextmanager
def _opened_parquet(path: ObjectStoragePath, role: FileRole, column: str) -> Iterator[Any]:
    """
    Open a Parquet file.

    :param path: the file.
    :param role: what it is to the user.
    :param column: the column that it must have.
    :returns: a context manager with pyarrow's file.
    :raises OSError: as :func:`read_parquet`.
    :raises InvalidSourceError: as :func:`read_parquet`.
    :raises PermanentError: as :func:`read_parquet`.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        other = role.advice(", or give the list as .txt, .csv or .jsonl")
        raise PermanentError(
            "Reading Parquet needs pyarrow, which is not installed here: "
            f"install this provider's extra 'parquet'{other}."
        ) from None
    with role.naming(path), path.fs.open(path.path, "rb") as opened:
        reads = _Reads(opened)
        try:
            with pq.ParquetFile(reads, pre_buffer=False) as file:
                if error := column_error(column, file.schema_arrow.names):
                    raise InvalidSourceError(f"{role.name} {path}: {error}.")
                yield file
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            # pyarrow raises OSError for damaged pages, and UnicodeDecodeError for a damaged name of a column.
            if reads.error is not None:
                raise reads.error from None
            raise InvalidSourceError(f"{role.name} {path}: it is no whole Parquet file ({error}).") from None


class _Reads:
    """
    A file for pyarrow, which notes an error of the storage.

    :param file: the file, opened for reading.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        #: The error of the last read that failed; None if none has.
        self.error: OSError | None = None

    def read(self, size: int = -1) -> bytes:
        try:
            data: bytes = self._file.read(size)
        except OSError as error:
            self.error = error
            raise
        except Exception as error:
            # Some clients of stores have classes of their own, for example for a lost network.
            self.error = OSError(f"{type(error).__name__}: {error}")
            raise self.error from error
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
