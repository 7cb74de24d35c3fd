"""A client of one service: its addresses, credentials, rate, retries and errors around every call. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, quote_plus

from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidReplyError,
    MediaOpsError,
    ReplyTimeoutError,
    ServiceUnavailableError,
    TemporaryError,
)
from airflow_provider_mediaops.http.auth import Auth, NoAuth
from airflow_provider_mediaops.http.errors import SUCCESS, ErrorRules, uncertain
from airflow_provider_mediaops.http.exchange import Call, Conversation, Request, Response, TransportError, Wait
from airflow_provider_mediaops.http.rate_limit.limiter import spent_quota
from airflow_provider_mediaops.http.rate_limit.schedule import QuotaExhausted
from airflow_provider_mediaops.http.retry import Clock, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter

T = TypeVar("T")

# A redirect and a refusal say that nothing was done; 303 says that it was, and 408 does not know.
_NOTHING_DONE = frozenset(range(300, 500)) - {HTTPStatus.SEE_OTHER, HTTPStatus.REQUEST_TIMEOUT}
# After these another host of the service may do better.
_FAIL_OVER = (ConnectionFailedError, ReplyTimeoutError, ServiceUnavailableError)


@dataclass(slots=True)
class Client:
    """
    Makes whole conversations of single calls.

    :param base_urls: the service's base addresses; one is kept until it fails, then the next is asked (fail over).
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
        :raises MediaOpsError: the last error met, typed. A quota that is known to be used up, and a rate store that
            fails, end the call without another request.
        """
        attempts = self.retry.start(self.clock)
        may_invalidate = True
        while True:
            permit = yield from self._permit_for(call.request)
            host = self._current
            try:
                return (yield from self._try_once(call, self.base_urls[host], permit))
            except AuthenticationError as error:
                # A refusal of the token call itself is final: it has another path.
                expired = error.status == HTTPStatus.UNAUTHORIZED and error.path == call.request.path
                if not (may_invalidate and expired and self.auth.invalidate()):
                    raise
                may_invalidate = False
            except TemporaryError as error:
                # Unless another call has moved on from this host already.
                if isinstance(error, _FAIL_OVER) and self._current == host:
                    self._current = (host + 1) % len(self.base_urls)
                pause = attempts.pause_after(error)
                if pause is None:
                    raise
                yield Wait(pause, f"{type(error).__name__}, try {attempts.failed + 1}: {error.message}")

    def limited(self, error: MediaOpsError) -> Conversation[None]:
        """
        Tell all who use the key of a limit that a reply alone did not show.

        :param error: a ``RateLimitedError`` or ``QuotaExceededError``; anything else is not about the key's rate.
        :returns: a conversation that ends when it is told.
        """
        yield from self._on_error(error, None)

    def probing(self) -> Client:
        """
        Give a client for one who finds out how things are.

        :returns: a client that asks each host once, also where the key's quota is known to be used up: whether it still
            is, only the service can tell.
        """
        limiter = self.limiter and replace(self.limiter, respects_quota=False)
        return replace(self, retry=RetryPolicy(max_attempts=len(self.base_urls)), limiter=limiter)

    def restore_quota(self) -> Conversation[None]:
        """
        Let all who use the key go on although its quota was used up, because the service answers.

        :returns: a conversation that ends when it is told.
        :raises RateStoreError: where the rate store cannot be used.
        """
        if self.limiter:
            yield from self.limiter.restore_quota()

    def _permit_for(self, request: Request) -> Conversation[Permit | None]:
        if not self.limiter:
            return None
        answer = yield from self.limiter.acquire()
        if not isinstance(answer, QuotaExhausted):
            return answer
        if self.limiter.respects_quota:
            raise spent_quota(request, self.rules.service, answer, self.clock.now())
        return None

    def _on_error(self, error: MediaOpsError, permit: Permit | None) -> Conversation[None]:
        if self.limiter:
            # A pause is no longer than a call may wait: after that, a caller hears of the limit from the service again.
            yield from self.limiter.on_error(error, permit, self.retry.max_wait)

    def _try_once(self, call: Call[T], base_url: str, permit: Permit | None) -> Conversation[T]:
        # After any wait, so that the token is fresh when it is used.
        token_call = self.auth.token_request()
        if token_call is not None:
            yield from self._exchange(token_call, token_call.request)
        request = self.auth.sign(replace(call.request, base=call.request.base or base_url))
        try:
            result = yield from self._exchange(call, request)
        except MediaOpsError as error:
            yield from self._on_error(error, permit)
            raise
        if self.limiter and permit:
            yield from self.limiter.on_reply(permit)
        return result

    def _exchange(self, call: Call[T], request: Request) -> Conversation[T]:
        try:
            response: Response = yield request
        except TransportError as failure:
            error = self.rules.no_reply(request, failure)
            raise self._final(request, error, certain=not failure.sent) from None
        # Most replies are of success, and long.
        shown = None if response.status in SUCCESS else self._shown(response)
        refusal = self.rules.refusal(request, shown, self.clock.now()) if shown else None
        if refusal:
            certain = response.status in _NOTHING_DONE and not isinstance(refusal, ServiceUnavailableError)
            raise self._final(request, refusal, certain=certain)
        try:
            return call.parse(response)
        except InvalidReplyError as error:
            error.message = _redacted(error.message, self._secret_forms())
            explained = self.rules.in_context(request, self._shown(response), error)
            raise self._final(request, explained, certain=False) from None

    @staticmethod
    def _final(request: Request, error: MediaOpsError, *, certain: bool) -> MediaOpsError:
        return error if certain or request.idempotent else uncertain(error)

    def _shown(self, response: Response) -> Response:
        # Struck out before a message is made and cut to length, so that no part of a secret is left at the cut.
        secrets = self._secret_forms()
        headers = {name: _redacted(value, secrets) for name, value in response.headers.items()}
        body = response.body
        for secret in secrets:
            body = body.replace(secret.encode(), b"***")
        return replace(response, headers=headers, body=body)

    def _secret_forms(self) -> list[str]:
        # As they are, and as they stand in an address; the longest first, for one may be part of another.
        secrets = [secret for secret in self.auth.secrets if secret]
        forms = {form for secret in secrets for form in (secret, quote(secret, safe=""), quote_plus(secret))}
        return sorted(forms, key=len, reverse=True)


def _redacted(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
