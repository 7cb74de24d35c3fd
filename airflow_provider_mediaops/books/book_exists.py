"""Wait for a book's record to exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.books.isbn import normalise
from airflow_provider_mediaops.exceptions import NotFoundError
from airflow_provider_mediaops.waiting import Done, Waiting, Watch

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.exchange import Ask, CallFlow
    from airflow_provider_mediaops.waiting import Verdict

# What a sensor returns goes into Airflow's metadata database.
_LARGEST_RECORD = 32 * 1024


@dataclass(frozen=True, slots=True)
class BookWatch(Watch):
    """A book's record, by its ISBN in any usual writing; InvalidIsbnError if it is not that of a book."""

    isbn: str

    def __post_init__(self) -> None:
        normalise(self.isbn)

    def look(self, ask: Ask) -> CallFlow[Verdict]:
        """Look once."""
        from airflow_provider_mediaops.books.api import get_book
        from airflow_provider_mediaops.books.not_found import NOT_FOUND_ERRORS, UnvouchedNotFoundError

        isbn13 = normalise(self.isbn)
        try:
            book = yield from ask(get_book(isbn13))
        except NotFoundError:
            return Waiting(f"no record of {isbn13}")
        except UnvouchedNotFoundError as error:
            return Waiting(f"no record of {isbn13}, it seems. {error.message}")
        except NOT_FOUND_ERRORS:
            return Waiting(f"no record of {isbn13}, or the key's limit is reached")
        return Done(_bounded(_without_nul(book.record)))


def _without_nul(value: Any) -> Any:
    # PostgreSQL refuses NUL in JSON.
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, Mapping):
        return {_without_nul(name): _without_nul(item) for name, item in value.items()}
    return [_without_nul(item) for item in value] if isinstance(value, list) else value


def _bounded(record: dict[str, Any]) -> dict[str, Any]:
    import pydantic_core

    sizes = {name: len(pydantic_core.to_json({name: value})) for name, value in record.items()}
    excess = sum(sizes.values()) - _LARGEST_RECORD
    for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        if excess > 0:
            excess -= sizes[name]
            del record[name]
    return record
