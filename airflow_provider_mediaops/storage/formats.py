"""The formats of a dataset: JSON lines with the records as they came, CSV and Parquet with a flat view of them."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_provider_mediaops.arguments import shown
from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from typing import TextIO

Format = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
CsvFormulas = Literal["keep", "escape"]
CSV_FORMULAS: tuple[CsvFormulas, ...] = get_args(CsvFormulas)

# Parquet is read by row groups: one group per page of the service would make files slow to read.
_ROWS_A_GROUP = 10_000
_INT64_LIMIT = 2.0**63
# A cell that begins with one of these is a formula to some spreadsheet, as OWASP's page on CSV injection lists them.
_FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")

_Row = list[str | int | float | None]


@dataclass(frozen=True, slots=True)
class FlatView:
    """
    How the records of a service become rows of a table.

    :param columns: the names of the columns in order, with the types of their values.
    :param flatten: returns a record's values by column. A value that is absent, or not of its column's type, leaves the
        cell empty.
    """

    columns: Mapping[str, type[str | int | float]]
    flatten: Callable[[Mapping[str, Any]], Mapping[str, object]]

    def row(self, record: Mapping[str, Any]) -> _Row:
        """
        Return a record as a row.

        :param record: the record as it came.
        :returns: one value per column, of the column's type, or None.
        """
        values = self.flatten(record)
        return [_as(kind, values.get(name)) for name, kind in self.columns.items()]


def format_of(destination: object, format: str | None = None) -> Format:
    """
    Return the format in which a dataset is written.

    :param destination: its path.
    :param format: ``jsonl``, ``csv`` or ``parquet``; None means the suffix of the path.
    :returns: the format.
    :raises ValueError: if neither names a format.
    """
    # Without a dot there is no suffix.
    _, dot, suffix = str(destination).rpartition("/")[2].rpartition(".")
    word: object = (suffix if dot else "") if format is None else format
    for known in FORMATS:
        if isinstance(word, str) and word.lower() == known:
            return known
    if format is None:
        suffixes = ", ".join(f".{known}" for known in FORMATS)
        raise InvalidArgumentError(
            f"The destination {str(destination)!r} ends in none of {suffixes}: give it such a suffix, or give format."
        )
    raise InvalidArgumentError(f"format is one of {', '.join(FORMATS)}; not {shown(format)}.")


def check_format(format: Format) -> None:
    """
    Make sure that the packages which a format needs are installed.

    :param format: the format.
    :raises PermanentError: for Parquet, if pyarrow is not installed.
    """
    if format == "parquet" and not find_spec("pyarrow"):
        raise PermanentError(
            "Writing Parquet needs pyarrow, which is not installed here: "
            "install airflow-provider-mediaops[parquet], or write .jsonl or .csv."
        )


def check_csv_formulas(csv_formulas: CsvFormulas) -> None:
    """
    Make sure that ``csv_formulas`` has a known value.

    :param csv_formulas: ``keep`` or ``escape``.
    :raises ValueError: if it is neither.
    """
    if csv_formulas not in CSV_FORMULAS:
        raise InvalidArgumentError(f"csv_formulas is {' or '.join(CSV_FORMULAS)}; not {csv_formulas!r}.")


def write_table(
    format: Format,
    file: Path,
    view: FlatView,
    records: Iterable[Mapping[str, Any]],
    csv_formulas: CsvFormulas = "keep",
) -> None:
    """
    Write records as a table, with at most 10,000 of them in memory.

    :param format: ``csv`` or ``parquet``.
    :param file: the file on the local disk.
    :param view: the table's columns.
    :param records: the records as they came.
    :param csv_formulas: ``escape`` puts ``'`` before a text in CSV that a spreadsheet would take for a formula.
    :raises OSError: if the file cannot be written.
    """
    rows = map(view.row, records)
    if format == "csv":
        _write_csv(file, view, map(_without_formulas, rows) if csv_formulas == "escape" else rows)
    else:
        _write_parquet(file, view, rows)


def json_line(value: object) -> bytes:
    """
    Return a value as JSON on one line, without a line end.

    :param value: plain values.
    :returns: the line in UTF-8.
    :raises ValueError: if the value is nested too deep.
    """
    return json_lines([value])[:-1]


def json_lines(values: Iterable[object]) -> bytes:
    """
    Return values as JSON, one per line.

    Integers of any size, NaN and infinity keep their values.

    :param values: plain values.
    :returns: the lines in UTF-8, each with its line end.
    :raises ValueError: if a value is nested too deep.
    """
    from pydantic_core import to_json

    lines: list[bytes] = []
    for value in values:
        try:
            line = to_json(value, inf_nan_mode="constants")
        except ValueError:
            line = _json_of_odd_value(value)
        lines.append(line)
    lines.append(b"")
    return b"\n".join(lines)


def _json_of_odd_value(value: object) -> bytes:
    """Encode what ``to_json`` refuses: a lone surrogate, or more than 250 levels of nesting."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("the value is nested too deep to be written as JSON") from None
    # A lone surrogate has no UTF-8. Its backslash escape is valid JSON.
    return text.encode("utf-8", "backslashreplace")


def _as(kind: type[str | int | float], value: object) -> str | int | float | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    if kind is str:
        # NUL ends a text in many readers, and a lone surrogate has no UTF-8.
        return str(value).replace("\0", "").encode("utf-8", "backslashreplace").decode()
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    # Larger integers fit no column of a table. NaN compares as false.
    if not abs(number) < (_INT64_LIMIT if kind is int else float("inf")):
        return None
    if kind is float:
        return number
    return int(value if isinstance(value, int) else number) if number.is_integer() else None


def _write_csv(file: Path, view: FlatView, rows: Iterable[_Row]) -> None:
    with file.open("w", encoding="utf-8", newline="") as opened:
        # Readers end a row at CR as well as at LF. Below Python 3.13 the writer quotes only what is in its line
        # terminator, so it is given both, and the file gets LF.
        writer = csv.writer(_UnixLines(opened), lineterminator="\r\n")
        writer.writerow(view.columns)
        writer.writerows(rows)


class _UnixLines:
    """Writes each line of a CSV writer with LF instead of CR and LF."""

    def __init__(self, file: TextIO) -> None:
        self._write = file.write

    def write(self, line: str) -> int:
        return self._write(f"{line[:-2]}\n")


def _without_formulas(row: _Row) -> _Row:
    return [f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell for cell in row]


def _write_parquet(file: Path, view: FlatView, rows: Iterable[_Row]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    schema = pa.schema([(name, types[kind]) for name, kind in view.columns.items()])
    left = iter(rows)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := list(islice(left, _ROWS_A_GROUP)):
            columns = [list(values) for values in zip(*group, strict=True)]
            writer.write_table(pa.table(columns, schema=schema))
