"""Check a list of ISBNs without the service: what is invalid, what is there twice, and what looking it up will cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from airflow_provider_mediaops.books.api import PLAN_BATCHES, PLAN_RATES
from airflow_provider_mediaops.books.isbn import InvalidIsbnError, normalise
from airflow_provider_mediaops.storage.scratch import naming_folder, scratch_database

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

_AT_ONCE = 5_000
_DAY_SECONDS = 86_400
_CREATE_TABLE = "CREATE TABLE books (isbn INTEGER PRIMARY KEY, times INTEGER, first INTEGER, next INTEGER)"
_COUNT = (
    "INSERT INTO books VALUES (?, 1, ?, NULL) "
    "ON CONFLICT (isbn) DO UPDATE SET times = times + 1, next = coalesce(next, excluded.first)"
)
_REPEATED = "SELECT isbn, times, first, next FROM books WHERE times > 1 ORDER BY first LIMIT ?"


@dataclass(frozen=True, slots=True)
class ListedText:
    """
    A text of a list.

    :param line: its line, or its row in a format without lines, from 1.
    :param text: the text as it is.
    :param error: why the row cannot be read; None if it can.
    """

    line: int
    text: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class InvalidText:
    """
    A text that is no ISBN of a book.

    :param line: its line or row.
    :param text: the text.
    :param reason: what is wrong with it.
    """

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class RepeatedBook:
    """
    A book that is in the list more than once, in one writing or in several.

    :param isbn13: its thirteen digits.
    :param times: how often it is there.
    :param first_line: the line where it is first.
    :param next_line: the line where it is again.
    """

    isbn13: str
    times: int
    first_line: int
    next_line: int


@dataclass(frozen=True, slots=True)
class ListCheck:
    """
    What is in a list.

    :param rows: how many rows it has.
    :param invalid: how many of them are no ISBNs.
    :param books: how many different books the others name.
    :param first_invalid: the first rows that are no ISBNs.
    :param repeated: how many books are there more than once.
    :param first_repeated: the first of these books.
    """

    rows: int
    invalid: int
    books: int
    first_invalid: tuple[InvalidText, ...]
    repeated: int
    first_repeated: tuple[RepeatedBook, ...]


def check_list(texts: Iterable[ListedText], limit: int) -> ListCheck:
    """
    Check a list of any length in bounded memory; the books are counted in a temporary file.

    :param texts: the rows.
    :param limit: how many invalid texts and repeated books to return at most.
    :raises OSError: if the temporary file cannot be written; the message names its folder.
    """
    rows = invalid = 0
    first_invalid: list[InvalidText] = []
    remaining = iter(texts)
    database = scratch_database(_CREATE_TABLE)
    try:
        while batch := list(islice(remaining, _AT_ONCE)):
            rows += len(batch)
            found: list[tuple[int, int]] = []
            for each in batch:
                isbn = _isbn_of(each)
                if isinstance(isbn, int):
                    found.append((isbn, each.line))
                    continue
                invalid += 1
                if len(first_invalid) < limit:
                    first_invalid.append(isbn)
            with naming_folder():
                database.executemany(_COUNT, found)
        return _counted(database, rows, invalid, tuple(first_invalid), limit)
    finally:
        database.close()


def _counted(
    database: sqlite3.Connection, rows: int, invalid: int, first_invalid: tuple[InvalidText, ...], limit: int
) -> ListCheck:
    with naming_folder():
        books, repeated = database.execute("SELECT count(*), coalesce(sum(times > 1), 0) FROM books").fetchone()
        first_repeated = tuple(RepeatedBook(str(isbn), *more) for isbn, *more in database.execute(_REPEATED, (limit,)))
    return ListCheck(rows, invalid, books, first_invalid, repeated, first_repeated)


def _isbn_of(listed: ListedText) -> int | InvalidText:
    if listed.error:
        return InvalidText(listed.line, listed.text, listed.error)
    try:
        return int(normalise(listed.text))
    except InvalidIsbnError as error:
        return InvalidText(listed.line, listed.text, error.reason)


@dataclass(frozen=True, slots=True)
class LookupCost:
    """
    What it costs to look books up, if the service answers each request.

    :param plan: the key's plan.
    :param requests_per_second: its rate.
    :param bulk: whether one request asks for many books.
    :param requests: the number of requests.
    :param quota: how much of the key's daily quota they use, all days together.
    :param seconds: how long they take, from the beginning of a day on.
    :param days: on how many days the quota is used; None if it is unknown.
    """

    plan: str
    requests_per_second: float
    bulk: bool
    requests: int
    quota: int
    seconds: float
    days: int | None


def lookup_cost(books: int, plan: str, *, bulk: bool = False, daily_quota: int | None = None) -> LookupCost:
    """
    Return what it costs to look books up.

    :param books: the number of different books: each is asked for once.
    :param plan: the key's plan, one of :data:`~airflow_provider_mediaops.books.api.PLAN_RATES`.
    :param bulk: whether one request asks for as many books as the plan allows. Each still counts against the quota.
    :param daily_quota: the key's requests a day, at least 1; None if it is unknown.
    """
    rate, size = PLAN_RATES[plan], PLAN_BATCHES[plan] if bulk else 1
    days = None if daily_quota is None else math.ceil(books / daily_quota)
    # On the last day only the rest is asked for; the days before end when the quota comes back.
    whole_days = max(0, (days or 0) - 1)
    last = books - whole_days * (daily_quota or 0)
    seconds = whole_days * _DAY_SECONDS + math.ceil(last / size) / rate
    if daily_quota is not None and math.ceil(daily_quota / size) / rate > _DAY_SECONDS:
        # The rate allows less in a day than the quota does.
        seconds = math.ceil(books / size) / rate
        days = math.ceil(seconds / _DAY_SECONDS)
    return LookupCost(plan, rate, bulk, math.ceil(books / size), books, seconds, days)
