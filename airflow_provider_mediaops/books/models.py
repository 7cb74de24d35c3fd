"""Records of the book database as it sends them, and the result of a look-up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_mediaops.books.isbn import InvalidIsbnError, normalise

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import MediaOpsError

_DATE = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?", re.ASCII)

# Nine digits.
_PAGES_LIMIT = 10**9
_WHOLE = re.compile(r"\d{1,9}", re.ASCII)
_PRICE = re.compile(r"\d{1,9}(?:\.\d*)?", re.ASCII)
_ISBN13 = 13
# The fields of a table that are one text each, and those that are several.
_TEXTS = ("title", "title_long", "publisher", "language", "binding", "edition", "image")
_LISTS = ("authors", "subjects", "dewey_decimal", "dimensions")
_SEPARATOR = "; "

Status = Literal["found", "not_found", "missing", "invalid", "failed", "not_asked"]


@dataclass(frozen=True, slots=True)
class Book:
    """
    A book's record, kept as it came, and a lenient reading of it.

    The types of its fields drift from record to record: numbers are texts, texts are lists, lists are objects with
    numeric keys, any of them may be absent. The properties read what can be read and never raise.

    :param record: the record with every field that the service sent.
    """

    record: Mapping[str, Any] = field(repr=False)

    @property
    def isbn13(self) -> str | None:
        """The ISBN-13; in some records ``isbn`` holds it."""
        texts = (self._text(name) for name in ("isbn13", "isbn"))
        return next((text for text in texts if text and len(text) == _ISBN13), None)

    def own_isbns(self) -> Iterator[str]:
        """Yield the ISBNs that the record says it is of, as they are written there, and their thirteen digits."""
        for name in ("isbn13", "isbn", "isbn10"):
            for text in self._texts(name):
                if any(map(str.isdigit, text)):
                    # Nearly always what was asked for: that of a thousand records would take long to normalise.
                    yield text
                    with suppress(InvalidIsbnError):
                        yield normalise(text)

    @property
    def title(self) -> str | None:
        """The title."""
        return self._text("title")

    @property
    def title_long(self) -> str | None:
        """The title with series and volume."""
        return self._text("title_long")

    @property
    def authors(self) -> list[str]:
        """The authors."""
        return self._texts("authors")

    @property
    def publisher(self) -> str | None:
        """The publisher."""
        return self._text("publisher")

    @property
    def language(self) -> str | None:
        """The language, in the service's own codes."""
        return self._text("language")

    @property
    def binding(self) -> str | None:
        """The binding, for example ``Hardcover``."""
        return self._text("binding")

    @property
    def edition(self) -> str | None:
        """The edition."""
        return self._text("edition")

    @property
    def pages(self) -> int | None:
        """The number of pages."""
        if type(number := self.record.get("pages")) is int:
            return number if 0 <= number < _PAGES_LIMIT else None
        text = self._text("pages")
        return int(text) if text and _WHOLE.fullmatch(text) else None

    @property
    def date_published(self) -> str | None:
        """The date of publication as far as it is known: ``2003``, ``2003-04`` or ``2003-04-30``."""
        found = _DATE.match(self._text("date_published") or "")
        return found[0] if found else None

    @property
    def msrp(self) -> float | None:
        """The list price."""
        text = self._text("msrp") or ""
        return float(text) if _PRICE.fullmatch(text) else None

    @property
    def subjects(self) -> list[str]:
        """The subjects."""
        return self._texts("subjects")

    @property
    def dewey_decimal(self) -> list[str]:
        """The classes of the Dewey Decimal Classification."""
        return self._texts("dewey_decimal")

    @property
    def dimensions(self) -> list[str]:
        """The dimensions, in the service's words."""
        return self._texts("dimensions")

    @property
    def image(self) -> str | None:
        """The address of the cover's picture."""
        return self._text("image")

    def cells(self) -> dict[str, str | int | float | None]:
        """Return the fields by name, each as one value for a table: the texts of a list are joined."""
        return {
            "pages": self.pages,
            "date_published": self.date_published,
            "msrp": self.msrp,
            **{name: self._text(name) for name in _TEXTS},
            **{name: _SEPARATOR.join(self._texts(name)) or None for name in _LISTS},
        }

    def _text(self, name: str) -> str | None:
        value = self.record.get(name)
        if type(value) is str and "\0" not in value:
            return value.strip() or None
        return next(iter(self._texts(name)), None)

    def _texts(self, name: str) -> list[str]:
        value = self.record.get(name)
        values: Iterable[object]
        values = value if isinstance(value, list) else value.values() if isinstance(value, Mapping) else [value]
        return [text for item in values if (text := _plain(item))]


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value.replace("\0", "").strip()
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else ""


@dataclass(frozen=True, slots=True)
class Lookup:
    """
    The result of looking up one ISBN.

    :param input: the text that was looked up, as it was given.
    :param isbn13: its thirteen digits; None if the text is not the ISBN of a book.
    :param status: ``found``; ``not_found``: the service has no record; ``missing``: there is no text; ``invalid``: it
        is not the ISBN of a book; no request is sent for these two; ``failed``: the service did not answer;
        ``not_asked``: a list had no request left for it.
    :param error: the reason why it is ``invalid``, ``failed`` or ``not_asked``.
    :param book: the record, if it was found.
    :param requests: the number of requests that it took; 0 for a repeated ISBN.
    :param cause: the error of a ``failed`` one, as it was raised; of a ``reused`` one, the reason why there is no newer
        look-up.
    :param fetched_at: in a list: when the service answered, in ISO 8601, UTC, to the second; None if it did not, or if
        that is not known.
    :param reused: whether an earlier dataset held it.
    """

    input: str
    isbn13: str | None
    status: Status
    error: str | None = None
    book: Book | None = field(default=None, repr=False)
    requests: int = 0
    cause: MediaOpsError | None = field(default=None, repr=False, compare=False)
    fetched_at: str | None = field(default=None, compare=False)
    reused: bool = False
