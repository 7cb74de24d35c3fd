"""The hook of the book database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence
from contextlib import aclosing, closing
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_mediaops.arguments import ordered
from airflow_provider_mediaops.connection_fields import BOOKS
from airflow_provider_mediaops.hooks.base import ConnectionCheck, Service, ServiceHook
from airflow_provider_mediaops.hooks.connection import base_urls, rate_limiter, retry_policy, transport_settings
from airflow_provider_mediaops.hooks.threads import in_loop_thread, in_thread
from airflow_provider_mediaops.http.auth import Auth
from airflow_provider_mediaops.http.request_threads import LONG_JOBS, RequestThreads

if TYPE_CHECKING:
    from airflow_provider_mediaops.books.api import KeyUsage
    from airflow_provider_mediaops.books.batch.options import BatchOptions, ResumePoint
    from airflow_provider_mediaops.books.batch.rows import IsbnRow
    from airflow_provider_mediaops.books.batch.runner import BatchUpdate
    from airflow_provider_mediaops.books.lookup import Finder
    from airflow_provider_mediaops.books.models import Book, Lookup
    from airflow_provider_mediaops.hooks.connection import ConnectionFields
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import CallFlow

# How many rows are looked up ahead of those that the caller has taken.
_WINDOW = 100


class BookDatabaseHook(ServiceHook):
    """
    Look up books by ISBN, at the rate of the connection's plan.

    :param books_conn_id: the connection's id, of type ``mediaops_books``.
    """

    service_package = "airflow_provider_mediaops.books"
    conn_type = BOOKS
    conn_name_attr = "books_conn_id"
    default_conn_name = "mediaops_books_default"

    def __init__(self, books_conn_id: str = default_conn_name) -> None:
        super().__init__(books_conn_id)
        self.books_conn_id = self.conn_id
        #: The plan of the connection; known once the service is.
        self.plan = "default"
        self._canary: str | None = None
        # It is made with the service, and keeps what it has found out about the base address.
        self._finder: Finder

    def book(self, isbn: str) -> Book:
        """
        Fetch a book's record.

        :param isbn: the ISBN in any usual writing.
        :returns: the record.
        :raises InvalidIsbnError: if the text is not the ISBN of a book, before anything is sent.
        :raises NotFoundError: if the service has no record of it.
        :raises InvalidConnectionError: if the base address or ``canary_isbn`` turns out to be wrong.
        :raises MediaOpsError: if the service refuses.
        """
        from airflow_provider_mediaops.books.isbn import normalise

        isbn13 = normalise(isbn)
        _ = self.service
        return self.run(self._finder.find(isbn13))

    def lookup(self, isbn: str) -> Lookup:
        """
        Look up one ISBN. A text that is not an ISBN, and a book that is not there, are results and no errors.

        :param isbn: the ISBN in any usual writing.
        :returns: ``found``, ``not_found`` or ``invalid``, and the record.
        :raises InvalidConnectionError: if the base address or ``canary_isbn`` turns out to be wrong.
        :raises MediaOpsError: if the service refuses.
        """
        _ = self.service
        return self.run(self._finder.look_up(isbn))

    def key_usage(self) -> KeyUsage | None:
        """
        Fetch the key's daily quota. The call is not in the specification; it costs one request.

        :returns: the requests of a day and those that are left, or None if the service has no such call.
        :raises MediaOpsError: if the service refuses.
        """
        from airflow_provider_mediaops.books.lookup import read_key_usage

        return self.run(read_key_usage(self.service.client.ask))

    def books(self, isbns: Iterable[str], *, max_failures: int = 0) -> Iterator[Lookup]:
        """
        Look up a list, in its order and at the plan's rate; an ISBN that comes again costs no request.

        As many requests are under way as the rate and the service's delay call for, so the list is read some way ahead
        of the look-ups that are handed out, and in another thread.

        :param isbns: the ISBNs in any usual writing. A set is sorted.
        :param max_failures: the number of look-ups that may be ``failed``, because the service did not answer, before
            the error of the next one is raised. Errors that are about the key are raised at once.
        :returns: the look-ups; nothing is sent before the first is asked for.
        :raises MediaOpsError: if the service refuses.
        """
        from airflow_provider_mediaops.books.batch.options import BatchOptions
        from airflow_provider_mediaops.books.batch.rows import IsbnRow

        isbns = ordered(isbns)
        # An iterator may be slow or endless: one row is read at a time, when it can be requested.
        ahead = _WINDOW if isinstance(isbns, Sequence) else 1
        options = BatchOptions(window=_WINDOW, ahead=ahead, max_failures=max_failures)
        with closing(self.lookup_batch(map(IsbnRow.of, isbns), options)) as updates:
            for update in updates:
                yield from update.done

    def lookup_batch(
        self,
        rows: Iterable[IsbnRow],
        options: BatchOptions,
        *,
        resume: ResumePoint | None = None,
        bulk: bool = False,
    ) -> Generator[BatchUpdate, None, None]:
        """Look up a list as :meth:`books` does, and yield the progress; requests go on while the caller takes it in."""
        from airflow_provider_mediaops.books.batch.scheduler import IN_FLIGHT

        # Fetched here: on a loop within a worker it could block the worker for ever.
        _ = self.service
        threads = RequestThreads(IN_FLIGHT, IN_FLIGHT)
        updates = self.alookup_batch(rows, options, resume=resume, bulk=bulk, threads=threads)
        yield from in_loop_thread(updates, self._stop)

    async def alookup_batch(
        self,
        rows: Iterable[IsbnRow],
        options: BatchOptions,
        *,
        resume: ResumePoint | None = None,
        bulk: bool = False,
        threads: RequestThreads = LONG_JOBS,
    ) -> AsyncGenerator[BatchUpdate, None]:
        """Look up a list on the event loop, as :meth:`lookup_batch` does in a worker; ``threads`` send the requests."""
        client = (await self.aservice()).client
        from airflow_provider_mediaops.books.api import PLANS
        from airflow_provider_mediaops.books.batch.runner import lookup_batch

        batch = lookup_batch(
            client,
            rows,
            partial(self.arun, threads=threads),
            options=options.with_bulk(PLANS[self.plan].bulk_size) if bulk else options,
            resume=resume,
            canary=self._canary,
            in_thread=in_thread,
            warn=self.log.warning,
        )
        async with aclosing(batch) as updates:
            async for update in updates:
                yield update

    def _configure(self, fields: ConnectionFields) -> Service:
        from airflow_provider_mediaops.books.api import BOOK_RULES, PLANS
        from airflow_provider_mediaops.books.lookup import Finder
        from airflow_provider_mediaops.http.client import Client

        key = fields.credential("the REST key")
        self.plan = plan = fields.value("plan")
        self._canary = _canary_of(fields)
        limiter = rate_limiter(fields, BOOK_RULES.service, key, PLANS[plan].requests_per_second)
        client = Client(
            base_urls(fields),
            BOOK_RULES,
            auth=Auth(key, (key,)),
            retry=retry_policy(fields),
            limiter=limiter,
        )
        self._finder = Finder(client, self._canary)
        return Service(client, transport_settings(fields), self._finder.ask)

    def _test(self, client: Client) -> CallFlow[ConnectionCheck]:
        from airflow_provider_mediaops.books.lookup import prove

        works = "The book database answers and accepts the key"
        usage = yield from prove(client.ask, self._canary)
        if usage is None or usage.left > 0:
            yield from client.restore_quota()
        if usage is None:
            return ConnectionCheck(f"{works}.")
        sentence = f"{works}; {usage.left:,} of its {usage.total:,} requests of today are left."
        return ConnectionCheck(sentence, quota=usage)


def _canary_of(fields: ConnectionFields) -> str | None:
    from airflow_provider_mediaops.books.isbn import InvalidIsbnError, normalise

    canary = fields.text("canary_isbn")
    try:
        return normalise(canary) if canary else None
    except InvalidIsbnError as error:
        raise fields.error("canary_isbn", str(error)) from None
