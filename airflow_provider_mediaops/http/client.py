"""A client of one service: its addresses, credentials, rate, retries and errors around every call. It does no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.exceptions import (
    AuthenticationError,
    ConnectionFailedError,
    InvalidConnectionError,
    InvalidReplyError,
    MediaOpsError,
    QuotaExceededError,
    RateStoreError,
    ReplyTimeoutError,
    ServiceUnavailableError,
    TemporaryError,
    UncertainDeliveryError,
)
from airflow_provider_mediaops.http.auth import Auth
from airflow_provider_mediaops.http.errors import ErrorRules, quota_error
from airflow_provider_mediaops.http.exchange import (
    Blocking,
    Call,
    CallFlow,
    Clock,
    Emit,
    NotCarriedOut,
    Request,
    Response,
    TransportError,
    Wait,
)
from airflow_provider_mediaops.http.rate_limit.schedule import QuotaExhausted
from airflow_provider_mediaops.http.retry import Attempts, RetryPolicy

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.rate_limit.limiter import Permit, RateLimiter

T = TypeVar("T")

# After these errors the next host of the service is asked.
_FAIL_OVER = (ConnectionFailedError, ReplyTimeoutError, ServiceUnavailableError)

# Replies from this size on are parsed in a thread: an event loop would stand still for some milliseconds and more.
_LARGE_REPLY_BYTES = 64 * 1024


@dataclass(slots=True)
class Client:
    """Makes call flows of single calls."""

    base_urls: tuple[str, ...]  # one is kept until it fails, then the next is asked (failover)
    rules: ErrorRules
    auth: Auth = field(default_factory=Auth)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    limiter: RateLimiter | None = None  # of the key, if it has a rate
    respects_quota: bool = True  # whether an exhausted quota of the key ends a call; False to test whether it still is
    clock: Clock = field(default_factory=Clock)  # the source of time and chance
    # Credentials beside those of ``auth`` that a reply or an error may hold, such as the password of a proxy.
    other_secrets: tuple[str, ...] = field(default=(), repr=False)
    _current: int = field(default=0, init=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every credential held now, for redaction."""
        return (*self.auth.secrets, *self.other_secrets)

    def ask(self, call: Call[T]) -> CallFlow[T]:
        """
        Send a call, and retry until there is a result, a permanent error, or a limit is reached.

        The last error met is raised, as a MediaOpsError. A write is retried only if it is certain that the service has
        not carried it out: nothing was sent, or the service itself refused it. After each such try a
        :class:`NotCarriedOut` is emitted. Otherwise ``UncertainDeliveryError`` is raised. A quota that is known to be
        used up, and a rate store that fails, end the call without another request.
        """
        attempts = Attempts(self.retry, self.clock)
        may_invalidate = True
        # Hosts to which nothing can be sent, for example because of their certificate.
        unusable: set[int] = set()
        while True:
            signed: Request | None = None
            host = self._current
            try:
                permit = yield from self._permit_for(call.request)
                attempts.begin_max_wait()
                host = self._current
                signed = self._signed(call.request, self.base_urls[host])
                return (yield from self._exchange(call, signed, permit))
            except AuthenticationError as error:
                # A refused token call is final.
                if not (signed and may_invalidate and self.auth.invalidate(signed, error)):
                    raise
                may_invalidate = False
            except (QuotaExceededError, RateStoreError):
                raise
            except InvalidConnectionError:
                unusable.add(host)
                if not signed or len(unusable) == len(self.base_urls):
                    raise
                self._ask_next_after(host)
            except TemporaryError as error:
                # Not after an error of the token service.
                if signed and isinstance(error, _FAIL_OVER):
                    self._ask_next_after(host)
                pause = attempts.pause_after(error) if call.request.is_retried else None
                if pause is None:
                    raise
                reason = f"{type(error).__name__}, try {attempts.failed + 1}: {error.message}"
                yield Wait(pause, reason, is_retry=True)
                metrics.count_wait(self.rules.service, "retry", pause)

    def _ask_next_after(self, host: int) -> None:
        # Unless another call has already failed over from this host.
        if self._current == host:
            self._current = (host + 1) % len(self.base_urls)

    def report_limit(self, error: MediaOpsError, permit: Permit | None = None) -> CallFlow[None]:
        """Report a rate limit or quota to all who use the key; without a permit, no single reply has shown it."""
        if self.limiter:
            # No pause is longer than a call may wait: after that, a request shows whether the limit still holds.
            yield from self.limiter.on_error(error, permit, self.retry.max_wait)

    def probing(self) -> Client:
        """
        Return a client that tests whether the service answers.

        It asks each host once, even if the key's quota is known to be used up: only the service can tell whether it
        still is.
        """
        return replace(self, retry=RetryPolicy(max_attempts=len(self.base_urls)), respects_quota=False)

    def restore_quota(self) -> CallFlow[None]:
        """Report to all who use the key that its quota is restored, because the service answers."""
        if self.limiter:
            yield from self.limiter.restore_quota()

    def _permit_for(self, request: Request) -> CallFlow[Permit | None]:
        # The token comes first, because a permit should be used at once and fetching a token takes time. If the token
        # expires while the call waits for its permit, the key is told that the request left late.
        yield from self.auth.prepare(self._fetch_token)
        if not self.limiter:
            return None
        answer = yield from self.limiter.acquire()
        if isinstance(answer, QuotaExhausted):
            if not self.respects_quota:
                return None
            metrics.count_not_sent(self.rules.service, "quota")
            raise quota_error(request, self.rules.service, answer, self.clock.now())
        yield from self.auth.prepare(self._fetch_token)
        return answer

    def _fetch_token(self, call: Call[T]) -> CallFlow[T]:
        return (yield from self._exchange(call, replace(call.request, secrets=self.secrets), None))

    def _signed(self, request: Request, base_url: str) -> Request:
        request = replace(request, base=request.base or base_url, secrets=self.secrets)
        try:
            return self.auth.sign(request)
        except TransportError as failure:
            # Of an address that cannot be signed because it cannot be sent.
            error = self.rules.no_reply(request, failure)
        raise error

    def _exchange(self, call: Call[T], request: Request, permit: Permit | None) -> CallFlow[T]:
        # Errors are raised outside the handlers. Otherwise the libraries' errors, which may quote the reply, would be
        # their context.
        error: MediaOpsError
        sent_at: float | None
        try:
            response: Response = yield request
        except TransportError as failure:
            error, sent_at = (call.rules or self.rules).no_reply(request, failure), None
        else:
            reading = partial(self._outcome, call, request, response)
            outcome = (yield Blocking(reading)) if len(response.body) >= _LARGE_REPLY_BYTES else reading()
            if not isinstance(outcome, MediaOpsError):
                metrics.count_request(self.rules.service, request.kind, None)
                if self.limiter and permit:
                    yield from self.limiter.on_sent(permit, response.sent_at)
                return outcome
            error, sent_at = outcome, response.sent_at
        metrics.count_request(self.rules.service, request.kind, error)
        if not request.idempotent and not isinstance(error, UncertainDeliveryError):
            yield Emit(NotCarriedOut(error))
        if self.limiter and permit:
            yield from self.limiter.on_sent(permit, sent_at)
        if not call.rules:
            yield from self.report_limit(error, permit)
        raise error

    def _outcome(self, call: Call[T], request: Request, response: Response) -> T | MediaOpsError:
        """Return the call's result, or the error of a reply that refuses or is not as documented."""
        rules = call.rules or self.rules
        if refusal := rules.refusal(request, response, self.clock.now()):
            return refusal
        parsed = _parsed(call, replace(response, secrets=request.secrets))
        if not isinstance(parsed, MediaOpsError):
            return parsed
        # The reply may hold a token that redaction does not know yet.
        shown = Response(response.status) if call.rules else response
        return rules.unusable(request, shown, parsed)


def _parsed(call: Call[T], response: Response) -> T | MediaOpsError:
    try:
        return call.parse(response)
    except MediaOpsError as error:
        return error.with_traceback(None)
    except (ValueError, ArithmeticError, RecursionError) as error:
        # For example a number too large for its type, which no model checks.
        return InvalidReplyError(f"It cannot be read ({type(error).__name__}).")
