"""``isbn``: check a list of ISBNs without asking the service."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import read_path, read_whole_number
from airflow_provider_mediaops.books.api import PLANS
from airflow_provider_mediaops.books.batch.rows import rows_of_source
from airflow_provider_mediaops.books.list_check import check_list, lookup_cost, shortened
from airflow_provider_mediaops.cli.terminal import Line, Result, TextTable
from airflow_provider_mediaops.enrichment.arguments import read_delimiter, read_encoding
from airflow_provider_mediaops.exceptions import StorageError
from airflow_provider_mediaops.progress import counted, duration
from airflow_provider_mediaops.storage.source_file import InvalidSourceError, ReadOptions
from airflow_provider_mediaops.storage.source_list import encoding_warning, find_files, read_list

if TYPE_CHECKING:
    import argparse

    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.books.list_check import ListCheck, LookupCost
    from airflow_provider_mediaops.cli.terminal import Part, Terminal

_LISTED_FILES = 20
# They are kept in memory.
_MOST_LISTED = 1_000_000
# What the document says of each file.
_FACTS = ("format", "columns", "delimiter", "encoding", "fallback_line", "sheet", "rows")


def run(options: argparse.Namespace, _: Terminal) -> Result:
    """Check a list. An invalid row is a problem, and so is a list without rows; an empty cell is none."""
    limit = read_whole_number("--limit", options.limit, minimum=0, maximum=_MOST_LISTED)
    delimiter = read_delimiter("--delimiter", options.delimiter)
    encoding = read_encoding("--encoding", options.encoding)
    try:
        # An empty name would stand for the current folder.
        paths = [read_path("FILE", file) for file in options.files]
        files = find_files(paths, ReadOptions(options.column, delimiter, encoding))
        rows = rows_of_source(read_list(files, goes_on=True), options.several, repair_zeros=options.repair_zeros)
        check = check_list(rows, limit)
    except InvalidSourceError as error:
        # What is wrong is in the file, not in how the command is used.
        raise StorageError(_with_option(str(error))) from error
    warning = encoding_warning(files)
    warnings = [warning] if warning else []
    problems = [_with_option(file.problem) for file in files if file.problem]
    costs = [
        lookup_cost(check.books, plan, bulk=bulk)
        for plan in ([options.plan] if options.plan else PLANS)
        for bulk in (False, True)
    ]
    figures = check.figures
    document = {
        "files": [{"file": file.path, **{fact: getattr(file, fact) for fact in _FACTS}} for file in files],
        **{name: getattr(figures, name) for name in ("rows", "isbns", "missing", "invalid")},
        "books": check.books,
        "reasons": [asdict(reason) for reason in figures.reasons],
        "first_invalid": list(map(_mistake, check.first_invalid)),
        "repeated": check.repeated,
        "first_repeated": [{"isbn13": str(isbn), "times": times} for isbn, times in check.first_repeated],
        "problems": problems,
        "warnings": warnings,
        "costs": [asdict(cost) for cost in costs],
    }
    parts: list[Part] = [Line(f"{file.path}: {file.described}") for file in files[:_LISTED_FILES]]
    if more := len(files[_LISTED_FILES:]):
        parts.append(Line(counted(more, "more file")))
    parts += [Line(complaint, "bad") for complaint in (*problems, *warnings)]
    parts += [*_findings(check), _cost_table(costs)] if figures.rows else [Line("The list holds no rows.", "bad")]
    return Result(document, parts, problem=bool(figures.invalid or problems) or not figures.rows)


def _with_option(message: str) -> str:
    """Return a message about a list with the option in the place of the operator's argument."""
    return message.replace(" isbn_column", " --column")


def _mistake(row: IsbnRow) -> dict[str, Any]:
    """Return the place of a row that holds no ISBN, its text, and what is wrong with that."""
    line = row.line or row.number
    return {"line": f"{row.file}:{line}" if row.file else line, "text": row.text, "reason": row.reason}


def _findings(check: ListCheck) -> Iterator[Part]:
    figures = check.figures
    repeats = figures.isbns - check.books
    counts = f"{figures.line()}, {repeats:,} repeated; books to look up: {check.books:,}"
    yield Line(counts, "bad" if figures.invalid else "good")
    if figures.reasons:
        reasons = [(each.rows, each.reason, each.example) for each in figures.reasons]
        yield TextTable(("Rows", "What is wrong", "Example"), reasons, "Commonest reasons")
    if check.first_invalid:
        mistakes = map(_mistake, check.first_invalid)
        rows = [(each["line"], shortened(each["text"]), each["reason"]) for each in mistakes]
        yield TextTable(("Line", "Text", "What is wrong"), rows, "Invalid")
        yield from _more(figures.invalid - len(rows))
    if figures.noted:
        note = "of several books in a cell, the first is read (--several rows reads all), or lost zeros are put back"
        yield Line(f"{counted(figures.noted, 'row')} with a note: {note}")
    if check.first_repeated:
        repeated = [(str(isbn), times) for isbn, times in check.first_repeated]
        yield TextTable(("ISBN", "Times"), repeated, "More than once")
        yield from _more(check.repeated - len(check.first_repeated))


def _more(number: int) -> Iterator[Line]:
    if number:
        yield Line(f"{number:,} more; --limit lists them, too")


def _cost_table(costs: list[LookupCost]) -> TextTable:
    columns = ("Plan", "Requests a second", "Bulk", "Requests", "Quota", "Time at least")
    rows = [
        (cost.plan, cost.requests_per_second, cost.bulk, cost.requests, cost.quota, duration(math.ceil(cost.seconds)))
        for cost in costs
    ]
    return TextTable(columns, rows, "Cost")
