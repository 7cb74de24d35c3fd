"""``isbn``: check a list of ISBNs without asking the service."""

from __future__ import annotations

import math
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_mediaops.books.api import PLAN_RATES
from airflow_provider_mediaops.books.list_check import ListedText, check_list, lookup_cost
from airflow_provider_mediaops.cli.files import STANDARD_INPUT, absolute_path, input_bytes
from airflow_provider_mediaops.cli.result import Line, Result, TextTable
from airflow_provider_mediaops.exceptions import InvalidArgumentError, StorageError
from airflow_provider_mediaops.storage.source_lines import InvalidSourceError
from airflow_provider_mediaops.storage.sources import read_rows

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from airflow_provider_mediaops.books.list_check import ListCheck, LookupCost
    from airflow_provider_mediaops.cli.result import Part
    from airflow_provider_mediaops.cli.terminal import Terminal

_PROGRESS_ROWS = 250_000
_LONGEST_TEXT = 60
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """
    Check a list.

    :param options: ``file``, ``column``, ``format``, ``plan``, ``quota`` and ``limit``.
    :param terminal: has the standard input; shows how many rows of a long list are read.
    :returns: what was found; an invalid row is a problem, and so is a list without rows.
    :raises InvalidArgumentError: for a number out of its range.
    :raises StorageError: if the file is no list, or lacks the column.
    :raises OSError: if it cannot be read.
    """
    if options.limit < 0:
        raise InvalidArgumentError(f"--limit is 0 or more; not {options.limit}.")
    if options.quota is not None and options.quota < 1:
        raise InvalidArgumentError(f"--quota is 1 or more; not {options.quota}.")
    with _source(options, terminal) as source:
        try:
            check = check_list(_texts(source, options.column, terminal), options.limit)
        except InvalidSourceError as error:
            # What is wrong is in the file, not in how the command is used.
            raise StorageError(_named(str(error), source, options.file)) from error
    plans = [options.plan] if options.plan else list(PLAN_RATES)
    costs = [
        lookup_cost(check.books, plan, bulk=bulk, daily_quota=options.quota) for plan in plans for bulk in (False, True)
    ]
    document = {"file": options.file, **asdict(check), "costs": [asdict(cost) for cost in costs]}
    return Result(document, _parts(options.file, check, costs), problem=bool(check.invalid) or not check.rows)


@contextmanager
def _source(options: argparse.Namespace, terminal: Terminal) -> Iterator[str]:
    """Yield the path of the list; the standard input is copied to a file, for Parquet is not read from a pipe."""
    if options.file != STANDARD_INPUT:
        yield absolute_path(options.file)
        return
    with tempfile.TemporaryDirectory(prefix="mediaops-") as folder:
        path = Path(folder) / f"list.{options.format}"
        with path.open("wb") as file:
            shutil.copyfileobj(input_bytes(terminal), file)
        yield str(path)


def _named(message: str, source: str, file: str) -> str:
    return message.replace(source, "the standard input" if file == STANDARD_INPUT else file)


def _texts(source: str, column: str, terminal: Terminal) -> Iterator[ListedText]:
    for number, row in enumerate(read_rows(source, column), 1):
        line = row.line or number
        error = row.error and row.error.removeprefix(f"Line {line}: ").removesuffix(".")
        yield ListedText(line, row.text, error)
        if number % _PROGRESS_ROWS == 0:
            terminal.say(f"{number:,} rows read")


def _parts(file: str, check: ListCheck, costs: list[LookupCost]) -> list[Part]:
    name = "the standard input" if file == STANDARD_INPUT else file
    if not check.rows:
        return [Line(f"{name} holds no rows.", "bad")]
    repeats = check.rows - check.invalid - check.books
    counts = f"{check.rows:,} rows, {check.invalid:,} invalid, {repeats:,} repeated; books to look up: {check.books:,}"
    parts: list[Part] = [Line(f"{name}: {counts}", "bad" if check.invalid else "good")]
    if check.first_invalid:
        rows = [[each.line, _shortened(each.text), each.reason] for each in check.first_invalid]
        invalid = TextTable(("Line", "Text", "What is wrong"), rows, "Invalid")
        parts += [Line(""), invalid, *_more(check.invalid - len(rows))]
    if check.first_repeated:
        again = [[each.isbn13, each.times, each.first_line, each.next_line] for each in check.first_repeated]
        columns = ("ISBN", "Times", "First line", "Next line")
        parts += [Line(""), TextTable(columns, again, "More than once"), *_more(check.repeated - len(again))]
    return [*parts, Line(""), _cost_table(costs)]


def _more(number: int) -> list[Part]:
    return [Line(f"{number:,} more; --limit lists them, too")] if number else []


def _cost_table(costs: list[LookupCost]) -> TextTable:
    knows_days = costs[0].days is not None
    columns = ("Plan", "Requests a second", "Bulk", "Requests", "Quota", "Time at least")
    rows = [
        [
            cost.plan,
            cost.requests_per_second,
            cost.bulk,
            cost.requests,
            cost.quota,
            at_least(cost.seconds),
            *([cost.days] if knows_days else []),
        ]
        for cost in costs
    ]
    return TextTable((*columns, "Days of quota") if knows_days else columns, rows, "Cost")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1]}…"


def at_least(seconds: float) -> str:
    """
    Return a minimum duration in its two largest units, rounded up to a second.

    :param seconds: the time in seconds.
    :returns: such as ``2 d 3 h``, ``5 min 10 s`` or ``0 s``.
    """
    left, units = math.ceil(seconds), [("d", _DAY), ("h", _HOUR), ("min", _MINUTE), ("s", 1)]
    amounts = []
    for unit, length in units:
        amount, left = divmod(left, length)
        amounts.append((amount, unit))
    first = next((at for at, (amount, _) in enumerate(amounts) if amount), len(amounts) - 1)
    return " ".join(f"{amount:,} {unit}" for amount, unit in amounts[first : first + 2] if amount) or "0 s"
