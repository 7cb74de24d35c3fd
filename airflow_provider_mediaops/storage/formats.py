"""The formats of a dataset: JSON lines with the records as they came, CSV and Parquet with a flat view of them."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, get_args

from airflow_provider_mediaops.arguments import shown, unsigned
from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError

Format = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
CsvFormulas = Literal["keep", "escape"]
CSV_FORMULAS: tuple[CsvFormulas, ...] = get_args(CsvFormulas)

# Parquet is read by row groups: one group per page of the service would make files slow to read.
_ROWS_A_GROUP = 10_000
# The rows that are in memory as Python's values at a time.
_ROWS_A_BLOCK = 100
# Larger integers fit no column of a table.
_MAX_INTEGER = 2**63
# A cell that begins with one of these is a formula to some spreadsheet, as OWASP's page on CSV injection lists them.
_FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_CRLF = "\r\n"

_Cell = str | int | float | None


@dataclass(frozen=True, slots=True)
class FlatView:
    """How the records of a service become rows of a table."""

    # The names of the columns in order, with the types of their values.
    columns: Mapping[str, type[str | int | float | bool]]
    # Returns a record's values by column.
    flatten: Callable[[Mapping[str, Any]], Mapping[str, object]]

    def row(self, record: Mapping[str, Any]) -> list[_Cell]:
        """Return the cells of a record; None for a value that is absent, or not of its column's type."""
        values = self.flatten(record)
        return [_cell(kind, values.get(name)) for name, kind in self.columns.items()]


def _cell(kind: type[str | int | float | bool], value: object) -> _Cell:
    """Return a value of any type as one of its column."""
    if isinstance(value, bool) or kind is bool:
        return value if isinstance(value, bool) and kind is bool else None
    if not isinstance(value, (str, int, float)):
        return None
    if kind is str:
        # NUL ends a text in many readers, and a lone surrogate has no UTF-8.
        return str(value).replace("\0", "").encode("utf-8", "backslashreplace").decode()
    return _number(kind, value)


def _number(kind: type, value: str | int | float) -> int | float | None:  # noqa: PYI041 an int is not a float to isinstance
    if kind is int and isinstance(value, int):
        return value if abs(value) < _MAX_INTEGER else None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if kind is float:
        return number if math.isfinite(number) else None
    return int(number) if number.is_integer() and abs(number) < _MAX_INTEGER else None


def format_of(destination: object, format: str | None = None) -> Format:
    """Return the format that is given, or else that of the suffix; raise ValueError if that is none."""
    # Without a dot there is no suffix.
    _, dot, suffix = str(destination).rpartition("/")[2].rpartition(".")
    word: object = (suffix if dot else "") if format is None else format
    for known in FORMATS:
        if isinstance(word, str) and word.lower() == known:
            return known
    if format is None:
        path, suffixes = shown(unsigned(str(destination))), ", ".join(f".{known}" for known in FORMATS)
        raise InvalidArgumentError(
            f"The destination {path} ends in none of {suffixes}: give it such a suffix, or give format."
        )
    raise InvalidArgumentError(f"format is one of {', '.join(FORMATS)}; not {shown(format)}.")


def check_format(format: Format) -> None:
    """Make sure that the packages which a format needs are installed; else raise PermanentError."""
    if format == "parquet" and not find_spec("pyarrow"):
        raise PermanentError(
            "Writing Parquet needs pyarrow, which is not installed here: "
            "install this provider's extra 'parquet', or write .jsonl or .csv."
        )


def write_table(
    format: Format,
    file: Path,
    view: FlatView,
    records: Iterable[Mapping[str, Any]],
    csv_formulas: CsvFormulas = "keep",
) -> None:
    """
    Write records as a table.

    At most 100 records are in memory at a time. Of a table in Parquet, so are the 10,000 rows of a row group. In CSV,
    ``escape`` puts ``'`` before a text that a spreadsheet would take for a formula.
    """
    rows = map(view.row, records)
    if format == "csv":
        _write_csv(file, view, rows, csv_formulas)
    else:
        _write_parquet(file, view, rows)


def json_lines(values: Iterable[object]) -> bytes:
    """Return values as JSON, one per line, as :func:`json_line` does."""
    return b"".join(json_line(value) + b"\n" for value in values)


def json_line(value: object) -> bytes:
    """
    Return a value as JSON on one line, without a line end; raise ValueError if it is nested too deep.

    Integers of any size keep their values; NaN and infinity, which JSON does not have, are null.
    """
    try:
        return _encoder()(value)
    except (ValueError, RecursionError):
        return _json_of_odd_value(value)


@cache
def _encoder() -> Callable[[object], bytes]:
    # An import within a function takes as long as to encode a short record.
    from msgspec.json import Encoder

    return Encoder().encode


def _json_of_odd_value(value: object) -> bytes:
    """Encode what msgspec refuses: a lone surrogate, or more levels than fit on the stack."""
    try:
        finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
        text = json.dumps(finite, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("the value is nested too deep to be written as JSON") from None
    # A lone surrogate has no UTF-8. Its backslash escape is valid JSON.
    return text.encode("utf-8", "backslashreplace")


def _write_csv(file: Path, view: FlatView, rows: Iterable[list[_Cell]], csv_formulas: CsvFormulas) -> None:
    with file.open("w", encoding="utf-8", newline="") as opened:
        # Readers end a row at CR as well as at LF. Before Python 3.13, only a writer whose rows end in both puts cells
        # that hold one of them in quotes.
        writer = csv.writer(SimpleNamespace(write=lambda line: opened.write(f"{line.removesuffix(_CRLF)}\n")))
        writer.writerow(view.columns)
        for row in rows:
            cells = map(_without_formula, row) if csv_formulas == "escape" else row
            # The words of JSON, which most readers of CSV understand.
            writer.writerow([str(cell).lower() if isinstance(cell, bool) else cell for cell in cells])


def _without_formula(cell: _Cell) -> _Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell


def _write_parquet(file: Path, view: FlatView, rows: Iterator[list[_Cell]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in view.columns.items()])
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        # Block by block: a whole group as Python's texts would take as much memory again.
        while blocks := list(_blocks(islice(rows, _ROWS_A_GROUP), schema)):
            writer.write_table(pa.Table.from_batches(blocks).combine_chunks())


def _blocks(rows: Iterator[list[_Cell]], schema: Any) -> Iterator[Any]:
    import pyarrow as pa

    while block := list(islice(rows, _ROWS_A_BLOCK)):
        yield pa.record_batch(list(zip(*block, strict=True)), schema)
