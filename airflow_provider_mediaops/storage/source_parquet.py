"""Read columns of a Parquet file on any storage, by its row groups."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.json_text import text_of
from airflow_provider_mediaops.storage.source_columns import column_error, places_of
from airflow_provider_mediaops.storage.source_lines import InvalidSourceError, SourceRow, naming_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import ObjectStoragePath

    from airflow_provider_mediaops.storage.source_columns import ColumnType, Keep

_ROWS_A_BATCH = 1_000
# An unsigned integer of 64 bits fits no signed column of a table.
_INT_BITS = 64


def read_parquet(path: ObjectStoragePath, column: str, skip: int, keep: Keep) -> Iterator[SourceRow]:
    """
    Read columns of a Parquet file lazily.

    :param path: the file.
    :param column: the column that is read as text.
    :param skip: how many rows to skip.
    :param keep: which other columns are kept.
    :returns: the rows.
    :raises OSError: if the file cannot be read; the message names it.
    :raises InvalidSourceError: if it is no whole Parquet file, or lacks a column.
    :raises PermanentError: if pyarrow is not installed.
    """
    with opened_parquet(path, column) as file:
        names = file.schema_arrow.names
        places = _places(path, names, column, keep)
        wanted = list(dict.fromkeys(names[place] for place in sorted({names.index(column), *(p for p, _ in places)})))
        for group in range(file.metadata.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if rows <= skip:
                skip -= rows
                continue
            for batch in file.iter_batches(_ROWS_A_BATCH, row_groups=[group], columns=wanted, use_threads=False):
                if skip < batch.num_rows:
                    yield from _rows_of(path, batch.slice(skip), column, places, names)
                skip = max(0, skip - batch.num_rows)


def count_parquet(path: ObjectStoragePath, column: str) -> int:
    """
    Return the number of rows, which the metadata of the file holds.

    :param path: the file.
    :param column: the column that it must have.
    :raises OSError: as :func:`read_parquet`.
    :raises InvalidSourceError: as :func:`read_parquet`.
    :raises PermanentError: as :func:`read_parquet`.
    """
    with opened_parquet(path, column) as file:
        return int(file.metadata.num_rows)


def parquet_columns(path: ObjectStoragePath, column: str, keep: Keep) -> dict[str, ColumnType]:
    """
    Return the columns that are kept, with their types in a table.

    :param path: the file.
    :param column: the column that is read.
    :param keep: which others are kept.
    :returns: integers and floats keep their type; everything else is a text.
    :raises OSError: as :func:`read_parquet`.
    :raises InvalidSourceError: as :func:`read_parquet`.
    :raises PermanentError: as :func:`read_parquet`.
    """
    with opened_parquet(path, column) as file:
        schema = file.schema_arrow
        return {name: _kind(schema.field(place).type) for place, name in _places(path, schema.names, column, keep)}


def _places(path: ObjectStoragePath, names: list[str], column: str, keep: Keep) -> list[tuple[int, str]]:
    places, error = places_of(names, column, keep)
    if error:
        raise InvalidSourceError(f"source {path}: {error}.")
    return places


def _kind(type: Any) -> ColumnType:
    import pyarrow as pa

    if pa.types.is_integer(type) and not (pa.types.is_unsigned_integer(type) and type.bit_width == _INT_BITS):
        return "int"
    return "float" if pa.types.is_floating(type) else "str"


def _rows_of(
    path: ObjectStoragePath, batch: Any, column: str, places: list[tuple[int, str]], names: list[str]
) -> Iterator[SourceRow]:
    read = batch.column(batch.schema.names.index(column))
    with _naming_values(path, column, read.type, "read", "Write them as texts."):
        texts = read.to_pylist()
    if not places:
        yield from map(SourceRow, map(text_of, texts))
        return
    kept = [_values(path, names[place], batch.column(_place_in(batch, names, place))) for place, _ in places]
    labels = [name for _, name in places]
    for text, *values in zip(texts, *kept, strict=True):
        yield SourceRow(text_of(text), columns=dict(zip(labels, values, strict=True)))


def _place_in(batch: Any, names: list[str], place: int) -> int:
    """Return where a column of the file is in a batch. Columns that share a name are read together, in their order."""
    same = [at for at, name in enumerate(batch.schema.names) if name == names[place]]
    return same[names[:place].count(names[place])]


def _values(path: ObjectStoragePath, name: str, column: Any) -> list[Any]:
    advice = "Leave it out of keep_columns, or set keep_columns=False."
    with _naming_values(path, name, column.type, "kept", advice):
        return [_plain(value) for value in _in_microseconds(column).to_pylist()]


@contextmanager
def _naming_values(path: ObjectStoragePath, name: str, kind: Any, use: str, advice: str) -> Iterator[None]:
    import pyarrow as pa

    # A time zone that is not known is a KeyError.
    try:
        yield
    except (ValueError, OverflowError, KeyError, pa.ArrowException) as error:
        what = f"column {name!r} has values of type {kind} that cannot be {use} ({error})"
        raise InvalidSourceError(f"source {path}: {what}. {advice}") from None


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
def opened_parquet(path: ObjectStoragePath, column: str) -> Iterator[Any]:
    """
    Open a Parquet file.

    :param path: the file.
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
        raise PermanentError(
            "Reading Parquet needs pyarrow, which is not installed here: "
            "install airflow-provider-mediaops[parquet], or give the list as .txt, .csv or .jsonl."
        ) from None
    with naming_source(path), path.fs.open(path.path, "rb") as opened:
        try:
            with pq.ParquetFile(opened, pre_buffer=False) as file:
                if error := column_error(column, file.schema_arrow.names):
                    raise InvalidSourceError(f"source {path}: {error}.")
                yield file
        except pa.ArrowException as error:
            raise InvalidSourceError(f"source {path}: it is no whole Parquet file ({error}).") from None
