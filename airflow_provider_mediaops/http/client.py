"""A client of one service: its addresses, credentials, rate, retries and errors around every call. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidReplyError,
    MediaOpsError,
    RateLimitedError,
    ServiceUnavailableError,
    TemporaryError,
)
from airflow_provider_mediaops.http.auth import Auth, NoAuth
from airflow_provider_mediaops.http.errors import ErrorRules, uncertain
from airflow_provider_mediaops.http.exchange import Call, Conversation, Request, Response, TransportError, Wait
from airflow_provider_mediaops.http.retry import Clock, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_mediaops.http.rate_limit import RateLimiter

T = TypeVar("T")


@dataclass(slots=True)
class Client:
    """
    Makes whole conversations of single calls.

    :param base_urls: the service's base addresses; the first that answers is kept (fail over).
    :param rules: how the service says no.
    :param auth: the credentials.
    :param retry: the bounds of trying again.
    :param limiter: the key's rate, where it has one.
    :param clock: where time comes from.
    """

    base_urls: tuple[str, ...]
    rules: ErrorRules
    auth: Auth = field(default_factory=NoAuth)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    limiter: RateLimiter | None = None
    clock: Clock = field(default_factory=Clock)
    _current: int = field(default=0, init=False)

    def ask(self, call: Call[T]) -> Conversation[T]:
        """
        Ask until there is a result, a permanent error, or a limit is reached.

        A write is repeated only where it is certain that the service has not done it: nothing was sent, or the service
        itself refused it. Otherwise its loss is an ``UncertainDeliveryError``.

        :param call: what to ask.
        :returns: a conversation whose result is the call's.
        :raises MediaOpsError: the last error met, typed.
        """
        attempts = self.retry.start(self.clock)
        may_renew = True
        while True:
            try:
                return (yield from self._try_once(call))
            except AuthenticationError as error:
                # A refusal of the token call itself is final: it has another path.
                expired = error.status == 401 and error.path == call.request.path
                if not (may_renew and expired and self.auth.renew()):
                    raise
                may_renew = False
            except TemporaryError as error:
                if isinstance(error, ConnectionFailedError):
                    self._current = (self._current + 1) % len(self.base_urls)
                pause = attempts.pause_after(error)
                if pause is None:
                    raise
                yield Wait(pause, f"{type(error).__name__}, try {attempts.failed + 1}: {error.message}")

    def _try_once(self, call: Call[T]) -> Conversation[T]:
        if self.limiter and (pause := self.limiter.reserve()) > 0:
            yield Wait(pause, "the key's rate")
        # After any wait, so that the token is fresh when it is used.
        token_call = self.auth.preliminary()
        if token_call is not None:
            yield from self._exchange(token_call, token_call.request)
        request = self.auth.sign(replace(call.request, base=call.request.base or self.base_urls[self._current]))
        return (yield from self._exchange(call, request))

    def _exchange(self, call: Call[T], request: Request) -> Conversation[T]:
        try:
            response: Response = yield request
        except TransportError as failure:
            error = self._without_secrets(self.rules.no_reply(request, failure))
            raise self._final(request, error, certain=not failure.sent) from None
        refusal = self.rules.refusal(request, response, self.clock.now())
        if refusal:
            if isinstance(refusal, RateLimitedError) and self.limiter:
                self.limiter.postpone(refusal.retry_after or 0.0)
            certain = not isinstance(refusal, ServiceUnavailableError)
            raise self._final(request, self._without_secrets(refusal), certain=certain)
        try:
            return call.parse(response)
        except InvalidReplyError as error:
            explained = self._without_secrets(self.rules.in_context(request, response, error))
            raise self._final(request, explained, certain=False) from error

    @staticmethod
    def _final(request: Request, error: MediaOpsError, *, certain: bool) -> MediaOpsError:
        return error if certain or request.idempotent else uncertain(error)

    def _without_secrets(self, error: MediaOpsError) -> MediaOpsError:
        error.message = _struck_out(error.message, self.auth.secrets)
        error.args = (error.message,)
        if error.excerpt:
            error.excerpt = _struck_out(error.excerpt, self.auth.secrets)
        return error


def _struck_out(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return text
