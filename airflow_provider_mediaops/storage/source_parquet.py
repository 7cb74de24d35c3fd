"""Read columns of a Parquet file on any storage, by its row groups."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from functools import partial
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
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.file_role import FileRole
    from airflow_provider_mediaops.storage.source_columns import ColumnType
    from airflow_provider_mediaops.storage.source_facts import FileFacts, ReadOptions

    # Names a column and the type of its values in an error.
    _Naming = Callable[..., AbstractContextManager[None]]

_ROWS_A_BATCH = 1_000
# An unsigned integer of 64 bits fits no signed column of a table.
_INT_BITS = 64


def read_parquet(
    path: ObjectStoragePath, role: FileRole, options: ReadOptions, facts: FileFacts
) -> Iterator[SourceRow]:
    """
    Read columns of a Parquet file lazily.

    :raises OSError: if the file cannot be read; the message names it.
    :raises InvalidSourceError: if it is no whole Parquet file, or lacks a column.
    :raises PermanentError: if pyarrow is not installed.
    """
    facts.format = "parquet"
    with _opened_parquet(path, role) as file:
        schema = file.schema_arrow
        names = schema.names
        read, kept = _places(path, role, schema, options)
        facts.columns = [names[place] for place in read]
        facts.kept = {name: _kind(schema.field(place).type) for place, name in kept}
        facts.too_many = check_number(facts.kept)
        wanted = list(dict.fromkeys(names[place] for place in sorted({*read, *(place for place, _ in kept)})))
        naming = partial(_naming_values, path, role)
        for group in range(file.metadata.num_row_groups):
            for batch in file.iter_batches(_ROWS_A_BATCH, row_groups=[group], columns=wanted, use_threads=False):
                yield from _rows_of(batch, read, kept, names, naming)


def parquet_names(path: ObjectStoragePath, role: FileRole) -> list[str]:
    """
    Return the names of the columns of a Parquet file.

    :raises OSError: as :func:`read_parquet`.
    :raises InvalidSourceError: as :func:`read_parquet`.
    :raises PermanentError: as :func:`read_parquet`.
    """
    with _opened_parquet(path, role) as file:
        return list(file.schema_arrow.names)


def _places(
    path: ObjectStoragePath, role: FileRole, schema: Any, options: ReadOptions
) -> tuple[list[int], list[tuple[int, str]]]:
    import pyarrow as pa

    names = schema.names
    try:
        read = find_columns(options.columns, names)
        if not read:
            raise InvalidSourceError(f"{role.of(path)}: {no_column(options.columns, names)}.")
        kept = places_of(names, left_out(options.columns, names, read), options.keep)
    except ValueError as error:
        if isinstance(error, InvalidSourceError):
            raise
        raise InvalidSourceError(f"{role.of(path)}: {error}.") from None
    for place in read:
        kind = schema.field(place).type
        if pa.types.is_float16(kind) or pa.types.is_float32(kind):
            # One number in ten would become that of another book.
            problem = f"column {names[place]!r} has numbers of type {kind}, which holds 7 digits of the 13"
            raise InvalidSourceError(f"{role.of(path)}: {problem}. Write them as texts.")
    return read, kept


def _kind(type: Any) -> ColumnType:
    import pyarrow as pa

    if pa.types.is_integer(type) and not (pa.types.is_unsigned_integer(type) and type.bit_width == _INT_BITS):
        return "int"
    return "float" if pa.types.is_floating(type) else "str"


def _rows_of(
    batch: Any, read: list[int], kept: list[tuple[int, str]], names: list[str], naming: _Naming
) -> Iterator[SourceRow]:
    texts = _texts_of(batch, read[0], names, naming)
    for place in read[1:]:
        others = _texts_of(batch, place, names, naming)
        texts = [
            other if is_missing(text) and not is_missing(other) else text
            for text, other in zip(texts, others, strict=True)
        ]
    if not kept:
        yield from map(SourceRow, texts)
        return
    values = [_values(names[place], batch.column(_place_in(batch, names, place)), naming) for place, _ in kept]
    labels = [name for _, name in kept]
    for text, *cells in zip(texts, *values, strict=True):
        yield SourceRow(text, columns=dict(zip(labels, cells, strict=True)))


def _texts_of(batch: Any, place: int, names: list[str], naming: _Naming) -> list[str]:
    column = batch.column(_place_in(batch, names, place))
    with naming(names[place], column.type, is_kept=False):
        return list(map(text_of, column.to_pylist()))


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
        raise InvalidSourceError(f"{role.of(path)}: {what}. {role.advice(advice)}".rstrip()) from None


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
    """Return a value of Parquet as JSON has it, which knows neither NaN nor infinity."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return finite(value)
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
def _opened_parquet(path: ObjectStoragePath, role: FileRole) -> Iterator[Any]:
    """
    Open a Parquet file.

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
                yield file
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            # pyarrow raises OSError for damaged pages, and UnicodeDecodeError for a damaged name of a column.
            if reads.error is not None:
                raise reads.error from None
            raise InvalidSourceError(f"{role.of(path)}: it is no whole Parquet file ({error}).") from None


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
