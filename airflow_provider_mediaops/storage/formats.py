"""The formats of a dataset: JSON lines with the records as they came, CSV and Parquet with a flat view of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_provider_mediaops.arguments import shown, unsigned
from airflow_provider_mediaops.exceptions import InvalidArgumentError, PermanentError
from airflow_provider_mediaops.http import MAX_REPLY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

#: The longest line of JSON in a dataset: what is longer is neither written nor read. A record may be as large as the
#: reply in which it came, and the columns of a list may be as large once more.
MAX_LINE_BYTES = 2 * MAX_REPLY_BYTES

Format = Literal["jsonl", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
CsvFormulas = Literal["keep", "escape"]
CSV_FORMULAS: tuple[CsvFormulas, ...] = get_args(CsvFormulas)

# Parquet is read by row groups: one group per page of the service would make files slow to read.
_ROWS_A_GROUP = 10_000
# The rows that become columns at a time: a column is checked and encoded as a whole if all of it is plain.
_ROWS_A_BLOCK = 100
# Larger integers fit no column of a table.
_LIMITS: dict[type, float] = {int: 2.0**63, float: float("inf"), bool: 2.0}
# A cell that begins with one of these is a formula to some spreadsheet, as OWASP's page on CSV injection lists them.
_FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")

# A cell that holds one of these is put in quotes. Readers end a row at CR as well as at LF.
_CSV_SPECIAL = '",\r\n'
_QUOTE = '"'
_has_special = re.compile(f"[{_CSV_SPECIAL}]").search

_TEXT_OR_NONE = frozenset({str, type(None)})
_Value = str | int | float | None
# The values of a column, from row to row.
_Column = list[_Value]


@dataclass(frozen=True, slots=True)
class FlatView:
    """
    How the records of a service become rows of a table.

    :param columns: the names of the columns in order, with the types of their values.
    :param flatten: returns a record's values by column. A value that is absent, or not of its column's type, leaves the
        cell empty.
    """

    columns: Mapping[str, type[str | int | float | bool]]
    flatten: Callable[[Mapping[str, Any]], Mapping[str, object]]

    def cells(self, records: Iterable[Mapping[str, Any]]) -> list[_Column]:
        """Return records as columns: their values in the order of the records, of the column's type or None."""
        rows = list(map(self.flatten, records))
        return [_column(kind, [row.get(name) for row in rows]) for name, kind in self.columns.items()]


def format_of(destination: object, format: str | None = None) -> Format:
    """
    Return the format in which a dataset is written.

    :param format: ``jsonl``, ``csv`` or ``parquet``; None means the suffix of the path.
    :raises ValueError: if neither names a format.
    """
    # Without a dot there is no suffix.
    _, dot, suffix = str(destination).rpartition("/")[2].rpartition(".")
    word: object = (suffix if dot else "") if format is None else format
    for known in FORMATS:
        if isinstance(word, str) and word.lower() == known:
            return known
    if format is None:
        path, suffixes = unsigned(str(destination)), ", ".join(f".{known}" for known in FORMATS)
        raise InvalidArgumentError(
            f"The destination {path!r} ends in none of {suffixes}: give it such a suffix, or give format."
        )
    raise InvalidArgumentError(f"format is one of {', '.join(FORMATS)}; not {shown(format)}.")


def check_format(format: Format) -> None:
    """
    Make sure that the packages which a format needs are installed.

    :raises PermanentError: for Parquet, if pyarrow is not installed.
    """
    if format == "parquet" and not find_spec("pyarrow"):
        raise PermanentError(
            "Writing Parquet needs pyarrow, which is not installed here: "
            "install this provider's extra 'parquet', or write .jsonl or .csv."
        )


def check_csv_formulas(csv_formulas: CsvFormulas) -> None:
    """Make sure that ``csv_formulas`` has a known value."""
    if csv_formulas not in CSV_FORMULAS:
        raise InvalidArgumentError(f"csv_formulas is {' or '.join(CSV_FORMULAS)}; not {csv_formulas!r}.")


def check_lines(lines: bytes) -> None:
    """
    Make sure that lines can be read again from a dataset.

    :raises PermanentError: if one of them is longer than :data:`MAX_LINE_BYTES`.
    """
    if len(lines) <= MAX_LINE_BYTES:
        return
    longest = max(map(len, lines.split(b"\n")))
    if longest > MAX_LINE_BYTES:
        raise PermanentError(
            f"A row of the dataset has {longest:,} bytes as JSON, and one of more than {MAX_LINE_BYTES:,} could not be "
            "read again. What the service or the list holds for that row has to become smaller."
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

    At most 100 records are in memory at a time. Of a table in Parquet, so are the 10,000 rows of a row group.

    :param csv_formulas: ``escape`` puts ``'`` before a text in CSV that a spreadsheet would take for a formula.
    """
    if format == "csv":
        _write_csv(file, view, records, csv_formulas)
    else:
        _write_parquet(file, view, records)


def json_line(value: object) -> bytes:
    """
    Return a value as JSON on one line, without a line end.

    Integers of any size keep their values; NaN and infinity, which JSON does not have, are null.

    :raises ValueError: if the value is nested too deep.
    """
    return json_lines([value])[:-1]


def json_lines(values: Iterable[object]) -> bytes:
    """Return values as JSON, one per line, as :func:`json_line` does."""
    listed = list(values)
    encode, errors = _encoder()
    try:
        return encode(listed)
    except errors:
        if len(listed) == 1:
            return _json_of_odd_value(listed[0]) + b"\n"
        # Each on its own, so that the line of a value does not depend on the others.
        return b"".join(json_lines([value]) for value in listed)


@cache
def _encoder() -> tuple[Callable[[list[object]], bytes], tuple[type[Exception], ...]]:
    """Return msgspec's encoder, and the errors that it raises for a value."""
    # An import within a function takes as long as to encode a short record.
    from msgspec.json import Encoder

    return Encoder().encode_lines, (ValueError, RecursionError)


def _json_of_odd_value(value: object) -> bytes:
    """Encode what msgspec refuses: a lone surrogate, or more levels than fit on the stack."""
    try:
        finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
        text = json.dumps(finite, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("the value is nested too deep to be written as JSON") from None
    # A lone surrogate has no UTF-8. Its backslash escape is valid JSON.
    return text.encode("utf-8", "backslashreplace")


def _blocks(view: FlatView, records: Iterable[Mapping[str, Any]]) -> Iterator[list[_Column]]:
    left = iter(records)
    while block := list(islice(left, _ROWS_A_BLOCK)):
        yield view.cells(block)


def _column(kind: type[str | int | float | bool], values: list[Any]) -> _Column:
    """Return values of any type as those of a column."""
    if kind is not str:
        # The usual case first. NaN compares as false.
        limit = _LIMITS[kind]
        return [
            value if value is None or (type(value) is kind and abs(value) < limit) else _as(kind, value)  # type: ignore[arg-type]
            for value in values
        ]
    if set(map(type, values)) <= _TEXT_OR_NONE and _is_clean("".join(filter(None, values))):
        return values
    return [value if value is None else _as(str, value) for value in values]


def _is_clean(text: str) -> bool:
    """Return whether a table can have a text as it is."""
    # NUL ends a text in many readers, and a lone surrogate has no UTF-8.
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _as(kind: type[str | int | float | bool], value: object) -> str | int | float | None:
    if kind is bool or isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return _as_text(value) if kind is str else _as_number(kind, value)


def _as_text(value: str | int | float) -> str:  # noqa: PYI041 an int is not a float to isinstance
    return str(value).replace("\0", "").encode("utf-8", "backslashreplace").decode()


def _as_number(kind: type, value: str | int | float) -> int | float | None:  # noqa: PYI041 as above
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not abs(number) < _LIMITS[kind]:
        return None
    if kind is float:
        return number
    return int(value if isinstance(value, int) else number) if number.is_integer() else None


def _write_csv(file: Path, view: FlatView, records: Iterable[Mapping[str, Any]], csv_formulas: CsvFormulas) -> None:
    with file.open("wb") as opened:
        opened.write(_csv_lines([[name] for name in view.columns]))
        for columns in _blocks(view, records):
            opened.write(_csv_lines(map(_without_formulas, columns) if csv_formulas == "escape" else columns))


def _csv_lines(columns: Iterable[_Column]) -> bytes:
    """
    Return the lines of CSV. ``csv.writer`` takes twice as long.

    A cell is in quotes only if it has to be. A row of one empty cell is ``""``, because readers skip empty lines.
    """
    lines = [",".join(cells) or '""' for cells in zip(*map(_csv_cells, columns), strict=True)]
    return "\n".join([*lines, ""]).encode()


def _csv_cells(column: _Column) -> list[str]:
    texts = ["" if cell is None else cell if type(cell) is str else _csv_word(cell) for cell in column]
    # To search all of them at once takes next to no time, and most columns need no quotes.
    together = "".join(texts)
    if not any(character in together for character in _CSV_SPECIAL):
        return texts
    return [f'"{text.replace(_QUOTE, _QUOTE * 2)}"' if _has_special(text) else text for text in texts]


def _csv_word(cell: str | int | float) -> str:  # noqa: PYI041 an int is not a float to isinstance
    # The words of JSON, which most readers of CSV understand.
    return ("true" if cell else "false") if isinstance(cell, bool) else str(cell)


def _without_formulas(column: _Column) -> _Column:
    return [f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell for cell in column]


def _write_parquet(file: Path, view: FlatView, records: Iterable[Mapping[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in view.columns.items()])
    left = iter(records)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        # Block by block: a whole group as Python's texts would take as much memory again.
        while blocks := [pa.record_batch(cells, schema) for cells in _blocks(view, islice(left, _ROWS_A_GROUP))]:
            writer.write_table(pa.Table.from_batches(blocks).combine_chunks())
