"""The hook of the book database."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_mediaops.connection_fields import BOOKS
from airflow_provider_mediaops.exceptions import NotFoundError, PermanentError
from airflow_provider_mediaops.hooks.connection_form import connection_form
from airflow_provider_mediaops.hooks.service import Service, ServiceHook
from airflow_provider_mediaops.hooks.settings import (
    SLOWEST_RATE,
    base_urls,
    rate_limiter,
    retry_policy,
    transport_settings,
)
from airflow_provider_mediaops.hooks.threads import in_thread
from airflow_provider_mediaops.http import drivers
from airflow_provider_mediaops.http.auth import HeaderAuth

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable, Iterator

    from airflow_provider_mediaops.books.batch.rows import Input
    from airflow_provider_mediaops.books.batch.runner import CarryOut, Stretch
    from airflow_provider_mediaops.books.batch.scheduler import WalkOptions
    from airflow_provider_mediaops.books.lookup import Finder
    from airflow_provider_mediaops.books.models import Book, Lookup
    from airflow_provider_mediaops.enrichment.checkpoint import Start
    from airflow_provider_mediaops.hooks.connection import ConnectionFields
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Conversation

# How many rows are looked up ahead of those that the caller has taken.
_WINDOW = 100


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
        self._batch = 1
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

        As many requests are under way as the service's delay calls for, so the list is read some way ahead of what is
        handed out, and in another thread.

        :param isbns: the ISBNs in any usual writing.
        :param max_failures: how many look-ups may be ``failed``, because the service did not tell, before the error of
            the next one is raised. Errors that are about the key are raised at once.
        :returns: the look-ups; nothing is asked before the first is wanted.
        :raises MediaOpsError: where the service refuses.
        """
        from airflow_provider_mediaops.books.batch.rows import Input

        with closing(self.walk(map(Input.of, isbns), options=_options_for(isbns, max_failures))) as stretches:
            for stretch in stretches:
                yield from (done.lookup for done in stretch.done)

    async def abooks(self, isbns: Iterable[str], *, max_failures: int = 0) -> AsyncGenerator[Lookup, None]:
        """Look up a list; the asynchronous twin of :meth:`books`."""
        from airflow_provider_mediaops.books.batch.rows import Input

        async with aclosing(self.awalk(map(Input.of, isbns), options=_options_for(isbns, max_failures))) as stretches:
            async for stretch in stretches:
                for done in stretch.done:
                    yield done.lookup

    def walk(
        self,
        inputs: Iterable[Input],
        *,
        start: Start | None = None,
        options: WalkOptions | None = None,
        bulk: bool = False,
    ) -> Generator[Stretch, None, None]:
        """
        Look up a list as :meth:`books` does, for those who save what is done.

        :param inputs: the rows of the list, from where it is to go on; read in another thread.
        :param start: what is known from earlier attempts.
        :param options: how to ask.
        :param bulk: whether one request asks for as many books as the plan allows; where the service turns out to know
            no such requests, that is told in the log, and books are asked for one by one.
        :returns: what is done, stretch by stretch; the walk goes on while one is worked on.
        :raises MediaOpsError: where the key is refused or its quota used up, or one row too many has failed; after all
            that was found is handed out.
        """
        from airflow_provider_mediaops.books.batch.scheduler import IN_FLIGHT
        from airflow_provider_mediaops.http.loop_thread import LoopThread, SendingThreads

        # Fetched here: on a loop within a worker it could block the worker for ever.
        client = self.service.client
        with SendingThreads(self._session().send, IN_FLIGHT) as threads, LoopThread() as loop:
            carry_out = partial(drivers.arun, send=threads.send, sleep=self._asleep, in_thread=in_thread)
            yield from loop.stream(self._walk_over(carry_out, client, inputs, start, options, bulk=bulk))

    async def awalk(
        self,
        inputs: Iterable[Input],
        *,
        start: Start | None = None,
        options: WalkOptions | None = None,
        bulk: bool = False,
    ) -> AsyncGenerator[Stretch, None]:
        """Look up a list for those who save what is done; the asynchronous twin of :meth:`walk`."""
        client = (await self.aservice()).client
        async with aclosing(self._walk_over(self.arun, client, inputs, start, options, bulk=bulk)) as stretches:
            async for stretch in stretches:
                yield stretch

    async def _walk_over(
        self,
        carry_out: CarryOut,
        client: Client,
        inputs: Iterable[Input],
        start: Start | None,
        options: WalkOptions | None,
        *,
        bulk: bool,
    ) -> AsyncGenerator[Stretch, None]:
        from airflow_provider_mediaops.books.batch.requests import Asking
        from airflow_provider_mediaops.books.batch.rows import InputReader
        from airflow_provider_mediaops.books.batch.runner import BookWalk
        from airflow_provider_mediaops.books.batch.scheduler import Course, WalkOptions
        from airflow_provider_mediaops.books.not_found import Judge
        from airflow_provider_mediaops.enrichment.checkpoint import start_of

        start, options = start or start_of((), None), options or WalkOptions()
        judge = Judge(self._canary, start.last_found)
        if client.retry.max_attempts == 1:
            # What is to be tried once is not tried again later either.
            options, judge.patience = replace(options, again_after=()), 0.0
        if bulk:
            # Some of them wait in order for others, and some are read ahead.
            options = replace(options, batch=self._batch, window=max(options.window, 3 * self._batch))
        course = Course(judge, start.known, options, start.undecided)
        asking = Asking(client, options.batch)
        walk = BookWalk(InputReader(inputs, in_thread), course, judge, asking, carry_out, warn=self.log.warning)
        try:
            async with aclosing(walk.stretches()) as stretches:
                async for stretch in stretches:
                    yield stretch
        finally:
            start.known.close()

    def _finder_for(self, client: Client) -> Finder:
        from airflow_provider_mediaops.books.lookup import Finder

        if self._finder is None:
            self._finder = Finder(client, self._canary)
        return self._finder

    def _configure(self, fields: ConnectionFields) -> Service:
        from airflow_provider_mediaops.books.api import BOOK_RULES, PLAN_BATCHES, PLAN_RATES
        from airflow_provider_mediaops.http.client import Client

        key = fields.credential("the REST key")
        plan = fields.choice("plan", tuple(PLAN_RATES), "default")
        rate = fields.number("requests_per_second", PLAN_RATES[plan], minimum=SLOWEST_RATE)
        self._canary = _canary_of(fields)
        self._batch = PLAN_BATCHES[plan]
        limiter = rate_limiter(fields, BOOK_RULES.service, key, rate)
        self._new_secrets += limiter.store.secrets
        client = Client(
            base_urls(fields),
            BOOK_RULES,
            auth=HeaderAuth.raw(key),
            retry=retry_policy(fields),
            limiter=limiter,
        )
        return Service(client, transport_settings(fields))

    def _probe(self, client: Client) -> Conversation[str]:
        from airflow_provider_mediaops.books.api import get_book, get_key_usage
        from airflow_provider_mediaops.books.not_found import WELL_KNOWN

        works = "The book database answers and accepts the key"
        try:
            usage = yield from client.ask(get_key_usage())
        except PermanentError:
            # Not every service has this call, and a gateway may refuse what it does not know in any way.
            pass
        else:
            if usage.left > 0:
                yield from client.restore_quota()
            return f"{works}; {usage.left:,} of its {usage.total:,} requests of today are left."
        with suppress(NotFoundError):
            yield from client.ask(get_book(self._canary or WELL_KNOWN))
        yield from client.restore_quota()
        return f"{works}."


def _options_for(isbns: Iterable[str], max_failures: int) -> WalkOptions:
    from airflow_provider_mediaops.books.batch.scheduler import WalkOptions

    # What is no list may be slow to read, or never end: it is read a row at a time, when the row can be asked for.
    ahead = _WINDOW if isinstance(isbns, Sequence) else 1
    return WalkOptions(window=_WINDOW, ahead=ahead, max_failures=max_failures)


def _canary_of(fields: ConnectionFields) -> str | None:
    from airflow_provider_mediaops.books.isbn import InvalidIsbnError, normalise

    canary = fields.text("canary_isbn")
    try:
        return normalise(canary) if canary else None
    except InvalidIsbnError as error:
        raise fields.error("canary_isbn", str(error)) from None
