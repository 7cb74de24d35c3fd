"""The hook of the book database."""

from __future__ import annotations

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from airflow_provider_mediaops.connection_fields import BOOKS
from airflow_provider_mediaops.exceptions import NotFoundError, PermanentError
from airflow_provider_mediaops.hooks.connection_form import connection_form
from airflow_provider_mediaops.hooks.service import Service, ServiceHook
from airflow_provider_mediaops.hooks.settings import ConnectionFields, base_urls, retry_policy, transport_settings
from airflow_provider_mediaops.http.auth import HeaderAuth

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator

    from airflow_provider_mediaops.books.lookup import Finder
    from airflow_provider_mediaops.books.models import Book, Lookup
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Conversation

# Any book will do for a test of the connection; this one is in every catalogue.
_WELL_KNOWN = "9780140449136"
_SLOWEST = 0.001


@connection_form
class BookDatabaseHook(ServiceHook):
    """
    Look up books by ISBN, at the rate of the connection's plan (book-database.md).

    :param books_conn_id: the connection's id, of type ``mediaops_books``.
    """

    conn_type = BOOKS
    conn_name_attr = "books_conn_id"
    default_conn_name = "mediaops_books_default"
    hook_name = "MediaOps book database"

    def __init__(self, books_conn_id: str = default_conn_name) -> None:
        super().__init__(books_conn_id)
        self.books_conn_id = books_conn_id
        self._canary: str | None = None
        self._finder: Finder | None = None

    def book(self, isbn: str) -> Book:
        """
        Fetch a book's record (section 4).

        :param isbn: the ISBN in any usual writing.
        :returns: the record.
        :raises InvalidIsbnError: where the text is no ISBN of a book, before anything is sent.
        :raises NotFoundError: where the service has no record of it.
        :raises MediaOpsError: where the service refuses.
        """
        from airflow_provider_mediaops.books.isbn import normalise

        isbn13 = normalise(isbn)
        return self.run(self._finder_for(self.service.client).find(isbn13))

    async def abook(self, isbn: str) -> Book:
        """Fetch a book's record; the asynchronous twin of :meth:`book`."""
        from airflow_provider_mediaops.books.isbn import normalise

        isbn13 = normalise(isbn)
        return await self.arun(self._finder_for((await self.aservice()).client).find(isbn13))

    def lookup(self, isbn: str) -> Lookup:
        """
        Look up one ISBN; a text that is none, or a book that is not there, is a result and no error.

        :param isbn: the ISBN in any usual writing.
        :returns: ``found``, ``not_found`` or ``invalid``, and the record.
        :raises MediaOpsError: where the service refuses.
        """
        return self.run(self._finder_for(self.service.client).look_up(isbn))

    async def alookup(self, isbn: str) -> Lookup:
        """Look up one ISBN; the asynchronous twin of :meth:`lookup`."""
        return await self.arun(self._finder_for((await self.aservice()).client).look_up(isbn))

    def books(self, isbns: Iterable[str], *, max_failures: int = 0) -> Iterator[Lookup]:
        """
        Look up a list, in its order and at the plan's rate; an ISBN that comes again costs no request.

        :param isbns: the ISBNs in any usual writing.
        :param max_failures: how many look-ups may be ``failed``, because the service did not tell, before the error of
            the next one is raised. Errors that are about the key are raised at once.
        :returns: the look-ups, made as they are asked for.
        :raises MediaOpsError: where the service refuses.
        """
        yield from self.stream(self._finder_for(self.service.client).look_up_all(isbns, max_failures=max_failures))

    async def abooks(self, isbns: Iterable[str], *, max_failures: int = 0) -> AsyncGenerator[Lookup, None]:
        """Look up a list; the asynchronous twin of :meth:`books`."""
        finder = self._finder_for((await self.aservice()).client)
        async with aclosing(self.astream(finder.look_up_all(isbns, max_failures=max_failures))) as lookups:
            async for lookup in lookups:
                yield lookup

    def _finder_for(self, client: Client) -> Finder:
        from airflow_provider_mediaops.books.lookup import Finder

        if self._finder is None:
            self._finder = Finder(client.ask, lambda: client.retry.start(client.clock), self._canary)
        return self._finder

    def _configure(self, fields: ConnectionFields) -> Service:
        from airflow_provider_mediaops.books.api import BOOK_RULES, PLAN_RATES
        from airflow_provider_mediaops.http.client import Client
        from airflow_provider_mediaops.http.rate_limit import limiter_for

        key = fields.credential("the REST key")
        plan = fields.choice("plan", tuple(PLAN_RATES), "default")
        rate = fields.number("requests_per_second", PLAN_RATES[plan], least=_SLOWEST)
        self._canary = _canary_of(fields)
        client = Client(
            base_urls(fields),
            BOOK_RULES,
            auth=HeaderAuth.raw(key),
            retry=retry_policy(fields),
            limiter=limiter_for(key, rate),
        )
        return Service(client, transport_settings(fields))

    def _probe(self, client: Client) -> Conversation[str]:
        from airflow_provider_mediaops.books.api import get_book, get_key_usage

        works = "The book database answers and accepts the key"
        try:
            usage = yield from client.ask(get_key_usage())
        except PermanentError:
            # Not every service has this call, and a gateway may refuse what it does not know in any way.
            pass
        else:
            return f"{works}; {usage.left:,} of its {usage.total:,} requests of today are left."
        with suppress(NotFoundError):
            yield from client.ask(get_book(self._canary or _WELL_KNOWN))
        return f"{works}."


def _canary_of(fields: ConnectionFields) -> str | None:
    from airflow_provider_mediaops.books.isbn import InvalidIsbnError, normalise

    canary = fields.text("canary_isbn")
    try:
        return normalise(canary) if canary else None
    except InvalidIsbnError as error:
        raise fields.wrong("canary_isbn", str(error)) from None
