"""Read columns of a Parquet file on any storage, by its row groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import PermanentError
from airflow_provider_mediaops.storage.source_columns import plain
from airflow_provider_mediaops.storage.source_file import Chosen, SourceRow

if TYPE_CHECKING:
    from airflow_provider_mediaops.storage.source_columns import ColumnType
    from airflow_provider_mediaops.storage.source_file import SourceFile

_ROWS_A_BATCH = 1_000
# An unsigned integer of 64 bits fits no signed column of a table.
_INT_BITS = 64


def read_parquet(file: SourceFile) -> Iterator[SourceRow]:
    """Read columns of a Parquet file lazily."""
    with _opened_parquet(file) as table:
        schema = table.schema_arrow
        names = schema.names
        chosen = file.choose(names)
        file.kept = {name: _kind(schema.field(place).type) for place, name in chosen.kept}
        for place in chosen.read:
            _check_digits(file, schema.field(place))
        places = [*chosen.read, *(place for place, _ in chosen.kept)]
        # In a row, the cells are in the order of their columns here, those that are read first.
        count = len(chosen.read)
        row_of = Chosen(list(range(count)), [(count + at, name) for at, (_, name) in enumerate(chosen.kept)])
        # Columns that share a name cannot be told apart once some are left out.
        is_unique = len(set(names)) == len(names)
        wanted = [names[place] for place in sorted(set(places))] if is_unique else None
        for group in range(table.metadata.num_row_groups):
            for batch in table.iter_batches(_ROWS_A_BATCH, row_groups=[group], columns=wanted, use_threads=False):
                columns = [
                    _values(file, names[place], batch.column(names[place] if is_unique else place), is_kept=at >= count)
                    for at, place in enumerate(places)
                ]
                for cells in zip(*columns, strict=True):
                    yield SourceRow(row_of.text(cells) or "", columns=row_of.columns(cells))


def _check_digits(file: SourceFile, column: Any) -> None:
    import pyarrow as pa

    if pa.types.is_float16(column.type) or pa.types.is_float32(column.type):
        # One number in ten would become that of another book.
        problem = f"column {column.name!r} has numbers of type {column.type}, which holds 7 digits of the 13"
        raise file.error(f"{problem}. Write them as texts")


def _kind(type: Any) -> ColumnType:
    import pyarrow as pa

    if pa.types.is_integer(type) and not (pa.types.is_unsigned_integer(type) and type.bit_width == _INT_BITS):
        return "int"
    return "float" if pa.types.is_floating(type) else "str"


def _values(file: SourceFile, name: str, column: Any, *, is_kept: bool) -> list[Any]:
    """Return the values of a column: texts of one that is read, and values as JSON has them of one that is kept."""
    import pyarrow as pa

    # A time zone that is not known is a KeyError.
    try:
        if is_kept:
            return list(map(plain, _in_microseconds(column).to_pylist()))
        values: list[Any] = column.to_pylist()
        return values
    except (ValueError, OverflowError, KeyError, pa.ArrowException) as error:
        use = "kept" if is_kept else "read"
        advice = "Leave it out of keep_columns, or set keep_columns=False" if is_kept else "Write them as texts"
        what = f"column {name!r} has values of type {column.type} that cannot be {use} ({error})"
        raise file.error(f"{what}. {advice}") from None


def _in_microseconds(column: Any) -> Any:
    """Return a column with the times that Python has, which know no nanoseconds."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_time64(kind):
        return column.cast(pa.time64("us"), safe=False)
    return column.cast(pa.duration("us"), safe=False) if pa.types.is_duration(kind) else column


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
