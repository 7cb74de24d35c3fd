"""Look up one book, by the rule of 404s; :mod:`airflow_provider_mediaops.books.batch` looks up lists."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.books.api import BOOK_PATH, KeyUsage, get_book, get_key_usage
from airflow_provider_mediaops.books.held_not_found import Evidence, HeldNotFounds
from airflow_provider_mediaops.books.isbn import InvalidIsbnError, normalise
from airflow_provider_mediaops.books.models import Book, Lookup
from airflow_provider_mediaops.books.not_found import (
    MISSING,
    MISSING_PROBE,
    WELL_KNOWN,
    Meaning,
    Probe,
    unconfirmed,
    wrong_connection,
)
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    InvalidConnectionError,
    MediaOpsError,
    NotFoundError,
    PermanentError,
)
from airflow_provider_mediaops.http.client import Attempts
from airflow_provider_mediaops.http.exchange import Request, Response, Wait, observed

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Ask, Call, CallFlow, Step

T = TypeVar("T")


@dataclass(slots=True)
class Contact:
    """What a run has met at the service: whether any reply, and why the last request that failed did so."""

    answered: bool = False
    trouble: str | None = None


@dataclass(slots=True)
class RequestCount:
    """Counts the requests of a call flow, those that got no reply included; ``send`` returns the number of each."""

    send: Callable[[], int]
    contact: Contact = field(default_factory=Contact)
    #: The number of the last request.
    number: int = field(default=0, init=False)
    total: int = field(default=0, init=False)
    #: Whether the limit was the reply to any of them.
    limited: bool = field(default=False, init=False)

    def observe(self, flow: CallFlow[T], inspect: Callable[[object], None] | None = None) -> CallFlow[T]:
        """Count the requests of a call flow."""

        def on_step(step: Step) -> CallFlow[Step]:
            yield from ()
            if isinstance(step, Request):
                self.total += 1
                self.number = self.send()
            elif isinstance(step, Wait) and step.is_retry:
                self.contact.trouble = step.reason
            return step

        def on_reply(reply: object) -> None:
            if isinstance(reply, Response):
                self.contact.answered = True
                self.limited = self.limited or reply.status == HTTPStatus.TOO_MANY_REQUESTS
            if inspect:
                inspect(reply)

        return observed(flow, on_step, on_reply)


def read_key_usage(ask: Ask) -> CallFlow[KeyUsage | None]:
    """Ask for the key's daily quota; None if the service has no such call, which is not in its specification."""
    try:
        return _shown((yield from ask(get_key_usage())))
    except (AuthenticationError, InvalidConnectionError):
        raise
    except PermanentError:
        # A gateway may refuse in any way what it does not know.
        return None


def _shown(usage: KeyUsage) -> KeyUsage:
    metrics.gauge("books.quota.left", usage.left)
    return usage


def prove(ask: Ask, canary: str | None) -> CallFlow[KeyUsage | None]:
    """
    Prove that key and address work: read the key's quota, or find a book. A configured canary must be found.

    The result is the quota, or None if the service has no call for it and a book was found. If neither was there, it is
    an ``InvalidConnectionError``, whose message has the path that was asked.
    """
    usage = None
    with suppress(PermanentError):
        usage = _shown((yield from ask(get_key_usage())))
    if usage and (canary is None or usage.left <= 0):
        # A key without quota left cannot ask for a book.
        return usage
    kind = Probe.CANARY if canary else Probe.WELL_KNOWN
    try:
        yield from ask(get_book(canary or WELL_KNOWN))
    except MISSING as error:
        meaning = MISSING_PROBE[kind][type(error)]
        if meaning is Meaning.WRONG_CONNECTION:
            raise wrong_connection(error, kind) from None
        if meaning is Meaning.NO_PROBE:
            raise unconfirmed(error) from None
        raise
    return usage


def send_probe(ask: Ask, probe: str) -> CallFlow[MediaOpsError | None]:
    """Ask for a probe; the result is None if it was found, else its 404."""
    try:
        yield from ask(get_book(probe))
    except MISSING as error:
        return error
    return None


@dataclass(slots=True)
class Finder:
    """Finds books, and says that there is no such book only if the rule of 404s does."""

    client: Client
    canary: str | None = None
    _evidence: Evidence = field(init=False)

    def __post_init__(self) -> None:
        self._evidence = Evidence(self.canary)

    def ask(self, call: Call[T]) -> CallFlow[T]:
        """Make a call; before a 404 is raised, prove the connection, unless it was proved a short time ago."""
        if call.request.path.startswith(BOOK_PATH):
            return (yield from self._find(call, only_proof=True))
        return (yield from self.client.ask(call))

    def find(self, isbn13: str) -> CallFlow[Book]:
        """Find a book."""
        return (yield from self._find(get_book(isbn13)))

    def _find(self, call: Call[T], *, only_proof: bool = False) -> CallFlow[T]:
        isbn13 = call.request.path.removeprefix(BOOK_PATH)
        attempts = Attempts(self.client.retry, self.client.clock)
        # A probe that is not found is not waited for here: the attempts of the call bound that.
        held = HeldNotFounds(self._evidence, patience_seconds=0.0)
        count = RequestCount(held.send)
        while True:
            try:
                book = yield from count.observe(self.client.ask(call))
            except MISSING as missing:
                held.missing(isbn13, missing, self._now())
                if count.limited:
                    held.see_limit(self._now())
                error = yield from self._decide(held, count, only_proof=only_proof)
                if only_proof:
                    raise error or missing from None
                if error is None:
                    continue
                pause = attempts.pause_after(error)
                if pause is None:
                    raise error from None
                yield Wait(pause, error.message)
            else:
                held.found(isbn13, count.number, self._now())
                return book

    def look_up(self, text: str) -> CallFlow[Lookup]:
        """Look up one ISBN."""
        try:
            isbn13 = normalise(text)
        except InvalidIsbnError as error:
            return Lookup(text, None, "invalid", error=str(error))
        count = RequestCount(lambda: 0)
        try:
            book = yield from count.observe(self.find(isbn13))
        except NotFoundError:
            return Lookup(text, isbn13, "not_found", requests=count.total)
        return Lookup(text, isbn13, "found", book=book, requests=count.total)

    def _decide(self, held: HeldNotFounds, count: RequestCount, *, only_proof: bool) -> CallFlow[MediaOpsError | None]:
        """Ask for probes until the one 404 that is held is decided on; return an error, or None to ask again."""
        while not (only_proof and self._evidence.is_proved(self._now())):
            if decisions := held.decisions(self._now(), idle=True):
                if news := held.take_news():
                    yield from self.client.report_limit(news)
                return None if decisions[0].action == "again" else decisions[0].error
            probe = str(held.check(self._now(), idle=True))
            error = yield from count.observe(send_probe(self.client.ask, probe))
            held.checked(probe, error, count.number, self._now())
            if held.wrong:
                raise held.wrong
        return None

    def _now(self) -> float:
        return self.client.clock.monotonic()
