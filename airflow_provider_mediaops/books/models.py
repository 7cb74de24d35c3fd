"""Records of the book database as it sends them, and the result of a look-up."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import MediaOpsError

_DATE = re.compile(r"\d{4}(?:-\d{2}(?:-\d{2})?)?", re.ASCII)

_WHOLE = re.compile(r"\d{1,9}", re.ASCII)
_PRICE = re.compile(r"\d{1,9}(?:\.\d*)?", re.ASCII)
_ISBN13 = 13

Status = Literal["found", "not_found", "invalid", "failed"]


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

    def _text(self, name: str) -> str | None:
        return next(iter(self._texts(name)), None)

    def _texts(self, name: str) -> list[str]:
        value = self.record.get(name)
        if isinstance(value, Mapping):
            value = list(value.values())
        values = value if isinstance(value, list) else [value]
        return [text for item in values if (text := _plain(item))]


def _plain(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    return str(value).replace("\0", "").strip()


@dataclass(frozen=True, slots=True)
class Lookup:
    """
    The result of looking up one ISBN.

    :param input: the text that was looked up, as it was given.
    :param isbn13: its thirteen digits; None if the text is not the ISBN of a book.
    :param status: ``found``; ``not_found``: the service has no record; ``invalid``: the text is not the ISBN of a
        book, and no request was sent; ``failed``: the service did not answer.
    :param error: the reason why it is ``invalid`` or ``failed``.
    :param book: the record, if it was found.
    :param requests: the number of requests that it took; 0 for a repeated ISBN.
    :param cause: the error of a ``failed`` one, as it was raised.
    """

    input: str
    isbn13: str | None
    status: Status
    error: str | None = None
    book: Book | None = field(default=None, repr=False)
    requests: int = 0
    cause: MediaOpsError | None = field(default=None, repr=False, compare=False)
