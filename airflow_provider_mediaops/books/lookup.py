"""Look up one book, by the rule of 404s; :mod:`airflow_provider_mediaops.books.batch` looks up lists."""

from __future__ import annotations

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
    MISSING_PROBE,
    NOT_FOUND_ERRORS,
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
from airflow_provider_mediaops.http.exchange import Request, Response, Wait, observed
from airflow_provider_mediaops.http.retry import Attempts

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.client import Client
    from airflow_provider_mediaops.http.exchange import Ask, Call, CallFlow, Step

T = TypeVar("T")


def read_key_usage(ask: Ask) -> CallFlow[KeyUsage | None]:
    """Ask for the key's daily quota; None if the service has no such call, which is not in its specification."""
    try:
        usage = yield from ask(get_key_usage())
    except (AuthenticationError, InvalidConnectionError):
        raise
    except PermanentError:
        # A gateway may refuse in any way what it does not know.
        return None
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
        usage = yield from read_key_usage(ask)
    if usage and (canary is None or usage.left <= 0):
        # A key without quota left cannot ask for a book.
        return usage
    kind = Probe.CANARY if canary else Probe.WELL_KNOWN
    if error := (yield from send_probe(ask, canary or WELL_KNOWN)):
        meaning = MISSING_PROBE[kind][type(error)]
        if meaning is Meaning.WRONG_CONNECTION:
            raise wrong_connection(error, kind)
        raise unconfirmed(error, canary) if meaning is Meaning.NO_PROBE else error
    return usage


def send_probe(ask: Ask, probe: str) -> CallFlow[MediaOpsError | None]:
    """Ask for a probe; the result is None if it was found, else its 404."""
    try:
        yield from ask(get_book(probe))
    except NOT_FOUND_ERRORS as error:
        return error
    return None


@dataclass(slots=True)
class Finder:
    """Finds books, and says that there is no such book only if the rule of 404s does."""

    client: Client
    canary: str | None = None
    _evidence: Evidence = field(init=False)

    def __post_init__(self) -> None:
        self._evidence = Evidence(self.client.clock.monotonic, self.canary)

    def ask(self, call: Call[T]) -> CallFlow[T]:
        """Make a call; before a 404 is raised, prove the connection, unless it was proved a short time ago."""
        if call.request.path.startswith(BOOK_PATH):
            return (yield from self._find(call, self._held(), only_proof=True))
        return (yield from self.client.ask(call))

    def find(self, isbn13: str) -> CallFlow[Book]:
        """Find a book."""
        return (yield from self._find(get_book(isbn13), self._held()))

    def look_up(self, text: str) -> CallFlow[Lookup]:
        """Look up one ISBN."""
        try:
            isbn13 = normalise(text)
        except InvalidIsbnError as error:
            return Lookup(text, None, "invalid", error=str(error))
        held = self._held()
        try:
            book = yield from self._find(get_book(isbn13), held)
        except NotFoundError:
            return Lookup(text, isbn13, "not_found", requests=held.sent)
        return Lookup(text, isbn13, "found", book=book, requests=held.sent)

    def _held(self) -> HeldNotFounds:
        # A probe that is not found is not waited for here: the attempts of the call bound that.
        return HeldNotFounds(self._evidence, patience_seconds=0.0)

    def _find(self, call: Call[T], held: HeldNotFounds, *, only_proof: bool = False) -> CallFlow[T]:
        isbn13 = call.request.path.removeprefix(BOOK_PATH)
        attempts = Attempts(self.client.retry, self.client.clock)
        while True:
            try:
                book = yield from self._counted(call, held)
            except NOT_FOUND_ERRORS as missing:
                held.hold(isbn13, missing)
                error = yield from self._decide(held, only_proof=only_proof)
                if only_proof:
                    raise error or missing from None
                if error is None:
                    continue
                pause = attempts.pause_after(error)
                if pause is None:
                    raise error from None
                yield Wait(pause, error.message)
            else:
                held.found(isbn13, held.sent)
                return book

    def _decide(self, held: HeldNotFounds, *, only_proof: bool) -> CallFlow[MediaOpsError | None]:
        """Ask for probes until the one 404 that is held is decided on; return an error, or None to ask again."""
        while not (only_proof and self._evidence.is_proved):
            if decisions := held.decisions(idle=True):
                if news := held.take_news():
                    yield from self.client.report_limit(news)
                return None if decisions[0].action == "again" else decisions[0].error
            probe = str(held.check(idle=True))
            error = yield from send_probe(lambda call: self._counted(call, held), probe)
            held.checked(error, held.sent)
            if held.wrong:
                raise held.wrong
        return None

    def _counted(self, call: Call[T], held: HeldNotFounds) -> CallFlow[T]:
        """Make a call, count its requests, and take note of a limit that it meets."""

        def on_step(step: Step) -> CallFlow[Step]:
            yield from ()
            if isinstance(step, Request):
                held.send()
            return step

        def on_reply(reply: object) -> None:
            if isinstance(reply, Response) and reply.status == HTTPStatus.TOO_MANY_REQUESTS:
                self._evidence.see_limit()

        return observed(self.client.ask(call), on_step, on_reply)
