"""The formats of a dataset: JSON lines with records as they came, CSV and Parquet with a flat view of them."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from airflow_provider_mediaops.exceptions import PermanentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

Format = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)

# Parquet is read by row groups: a group a page of the service would make files slow to read.
_ROWS_A_GROUP = 10_000
_LARGEST_WHOLE = 2.0**63


@dataclass(frozen=True, slots=True)
class FlatView:
    """
    How a service's records look as rows of a table; the same for every dataset of the service.

    :param columns: the names of the columns in order, with the type of their values.
    :param flatten: gives a record's values by column; what is absent, or cannot be read as its column's type, is left
        empty.
    """

    columns: Mapping[str, type[str | int | float]]
    flatten: Callable[[Mapping[str, Any]], Mapping[str, object]]

    def row(self, record: Mapping[str, Any]) -> list[str | int | float | None]:
        """
        Give one row.

        :param record: the record as it came.
        :returns: a value a column, of the column's type or None.
        """
        values = self.flatten(record)
        return [_as(kind, values.get(name)) for name, kind in self.columns.items()]


class Writer(Protocol):
    """Writes records to a file in one format."""

    def write(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Append records."""
        ...

    def close(self) -> None:
        """Finish the file."""
        ...


def format_of(destination: object, format: str | None = None) -> Format:
    """
    Say in which format a dataset is written.

    :param destination: its path; the suffix tells where ``format`` does not.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None goes by the suffix.
    :returns: the format.
    :raises ValueError: where neither names a format.
    """
    word = str(destination).rpartition("/")[2].rpartition(".")[2] if format is None else format
    for known in FORMATS:
        if word.lower() == known:
            return known
    if format is None:
        suffixes = ", ".join(f".{known}" for known in FORMATS)
        raise ValueError(
            f"The destination {str(destination)!r} ends in none of {suffixes}: give it such a suffix, or give format."
        )
    raise ValueError(f"format is one of {', '.join(FORMATS)}; not {format!r}.")


def open_writer(format: Format, file: Path, view: FlatView) -> Writer:
    """
    Begin to write a file.

    :param format: the format.
    :param file: the file on the local disk.
    :param view: the columns of CSV and Parquet.
    :returns: the writer, to be closed.
    :raises PermanentError: for Parquet, where pyarrow is not installed.
    """
    if format == "jsonl":
        return _JsonLines(file)
    return _Csv(file, view) if format == "csv" else _Parquet(file, view)


def json_line(value: object) -> bytes:
    """
    Give a value as JSON on one line, without the line's end.

    :param value: plain values.
    :returns: the text in UTF-8.
    """
    import pydantic_core

    try:
        return pydantic_core.to_json(value, inf_nan_mode="constants")
    except ValueError:
        # Half of a surrogate pair has no UTF-8; as an escape it is good JSON.
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def _as(kind: type[str | int | float], value: object) -> str | int | float | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    if kind is str:
        # NUL ends a text in many readers, and half of a surrogate pair has no UTF-8.
        return str(value).replace("\0", "").encode("utf-8", "backslashreplace").decode()
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    # Larger whole numbers fit no column of a table; "nan" compares as false.
    if not abs(number) < (_LARGEST_WHOLE if kind is int else float("inf")):
        return None
    if kind is float:
        return number
    return int(value if isinstance(value, int) else number) if number.is_integer() else None


class _JsonLines:
    def __init__(self, file: Path) -> None:
        self._file = file.open("wb")

    def write(self, records: Iterable[Mapping[str, Any]]) -> None:
        for record in records:
            self._file.write(json_line(record) + b"\n")

    def close(self) -> None:
        self._file.close()


class _Csv:
    def __init__(self, file: Path, view: FlatView) -> None:
        self._view = view
        self._file = file.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(view.columns)

    def write(self, records: Iterable[Mapping[str, Any]]) -> None:
        self._writer.writerows(map(self._view.row, records))

    def close(self) -> None:
        self._file.close()


class _Parquet:
    def __init__(self, file: Path, view: FlatView) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise PermanentError(
                "Writing Parquet needs pyarrow, which is not installed here: "
                "install airflow-provider-mediaops[parquet], or write .jsonl or .csv."
            ) from None
        types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
        self._view = view
        self._table = pa.table
        self._schema = pa.schema([(name, types[kind]) for name, kind in view.columns.items()])
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[list[str | int | float | None]] = []

    def write(self, records: Iterable[Mapping[str, Any]]) -> None:
        for record in records:
            self._rows.append(self._view.row(record))
            if len(self._rows) >= _ROWS_A_GROUP:
                self._flush()

    def close(self) -> None:
        try:
            self._flush()
        finally:
            self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            columns = [list(values) for values in zip(*self._rows, strict=True)]
            self._writer.write_table(self._table(columns, schema=self._schema))
            self._rows.clear()
