"""
The rate limiter of a key, shared by all tasks, workers and triggerers that use the key.

It asks the key's schedule (``schedule``), which a back end keeps, when a request may be sent, and waits until then. A
caller that is cancelled or dies leaves its slot unused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.exceptions import QuotaExceededError, RateLimitedError, RateStoreError
from airflow_provider_mediaops.http.exchange import Blocking, Clock, Wait
from airflow_provider_mediaops.http.rate_limit import schedule
from airflow_provider_mediaops.http.rate_limit.schedule import BookedOut, Granted, Later, QuotaExhausted, Schedule

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import MediaOpsError
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.http.rate_limit.backend import RateBackend

T = TypeVar("T")
#: From a state and the time, and figures of its own, to the next state and an answer.
_Question: TypeAlias = "Callable[..., tuple[Schedule, T]]"

# A quota that is restored within this time is waited for.
_SHORT_QUOTA_SECONDS = 10.0
# How long to wait for a back end that has worked and fails, and the pauses between attempts.
_PATIENCE_SECONDS, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 60.0, 0.1, 5.0
# A request that leaves this much later than it was permitted is reported; the guard band absorbs less.
_UNNOTICED_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission to send one request."""

    #: Its entry in the key's log of sends.
    at: float
    #: The same time on the clock of this process, at the earliest: a reply of the back end may come late.
    since: float


@dataclass(frozen=True, slots=True)
class RateLimiter:
    """Grants permits at the rate of a key."""

    backend: RateBackend
    name: str  # of its state in the back end; it does not show the key
    per_second: float
    clock: Clock = field(default_factory=Clock)
    service: str = ""  # for metrics

    def acquire(self) -> CallFlow[Permit | QuotaExhausted]:
        """
        Wait until a request may be sent; end at once if the key's quota is exhausted.

        It raises a ``RateLimitedError`` if the key is booked out for too long, and a ``RateStoreError`` if the back end
        cannot be used.
        """
        question: _Question[schedule.Answer] = schedule.reserve
        slot: tuple[float, ...] = ()
        while True:
            answer, since = yield from self._ask(question, self.per_second, *slot)
            if isinstance(answer, Granted):
                return Permit(answer.at, since)
            if isinstance(answer, BookedOut):
                metrics.count_not_sent(self.service, "rate")
                raise self._booked_out(answer)
            if isinstance(answer, Later):
                question, slot = schedule.confirm, (answer.slot,)
                yield Wait(answer.seconds, "the key's rate")
                metrics.count_wait(self.service, "rate", answer.seconds)
            elif answer.seconds > _SHORT_QUOTA_SECONDS:
                return answer
            else:
                yield Wait(answer.seconds, "the reset of the key's quota")
                metrics.count_wait(self.service, "quota", answer.seconds)

    def on_sent(self, permit: Permit, sent_at: float | None) -> CallFlow[None]:
        """
        Report when a request left, on the clock of this process. If that was late, later ones keep their distance.

        None means that it may have left at any time until now. Errors are ignored, because a report grants nothing.
        """
        now = self.clock.monotonic()
        left = sent_at if sent_at is not None and permit.since <= sent_at <= now else now
        if left - permit.since > _UNNOTICED_SECONDS:
            yield from self._report(schedule.sent_late, permit.at, left - permit.since)

    def on_error(self, error: MediaOpsError, permit: Permit | None, longest_seconds: float) -> CallFlow[None]:
        """
        Report what an error says about the key, for all who use it: a rate limit slows down, an exhausted quota stops.

        After ``longest_seconds``, a request tests whether the limit still holds. Errors of the report are ignored.
        """
        asked = error.retry_after or 0.0
        if isinstance(error, RateLimitedError):
            yield from self._report(schedule.slow_down, permit.at if permit else None, min(asked, longest_seconds))
        elif isinstance(error, QuotaExceededError):
            yield from self._report(schedule.exhaust, asked)

    def restore_quota(self) -> CallFlow[None]:
        """Let all callers continue although the quota was exhausted, because the service answers."""
        yield from self._ask(_told(schedule.restore))

    def _booked_out(self, answer: BookedOut) -> RateLimitedError:
        return RateLimitedError(
            f"So many requests wait for the rate of this key ({self.per_second:g} a second) that the next could be "
            f"sent only in {answer.seconds / 60:.0f} minutes; it was not sent. Run it again later, let fewer tasks "
            "use the key at once, or ask for a higher rate.",
            service=self.service,
            # Half of the waiting requests are sent by then.
            retry_after=answer.seconds / 2,
        )

    def _report(self, report: Callable[..., Schedule], *figures: float | None) -> CallFlow[None]:
        with suppress(RateStoreError):
            yield Blocking(self._update(_told(report), *figures))

    def _ask(self, question: _Question[T], *figures: float | None) -> CallFlow[tuple[T, float]]:
        update = self._update(question, *figures)
        started, waited, pause = self.clock.monotonic(), 0.0, _FIRST_PAUSE_SECONDS
        while True:
            try:
                answer: tuple[T, float] = yield Blocking(update)
            except RateStoreError as error:
                tried = max(waited, self.clock.monotonic() - started)
                if not self.backend.has_worked or tried + pause > _PATIENCE_SECONDS:
                    raise
                wait = self.clock.uniform(pause / 2, pause)
                yield Wait(wait, error.message)
                waited, pause = waited + wait, min(pause * 2, _LONGEST_PAUSE_SECONDS)
            else:
                self.backend.has_worked = True
                return answer

    def _update(self, question: _Question[T], *figures: float | None) -> Callable[[], tuple[T, float]]:
        def change(text: str | None, now: float, age: float) -> tuple[str | None, tuple[T, float]]:
            before = schedule.from_text(text, now) if text else None
            begun = before or schedule.begin(now, self.per_second, at_once=not self.backend.may_lose)
            # A clock that was set back a little stands still.
            after, answer = question(begun, max((now, *begun.sent[-1:])), *figures)
            # The same text says that there is nothing to write.
            return (text if after is before else schedule.to_text(after)), (answer, self.clock.monotonic() - age)

        return partial(self.backend.update, self.name, change)


def _told(report: Callable[..., Schedule]) -> _Question[None]:
    return lambda state, now, *figures: (report(state, now, *figures), None)


def limiter_for(service: str, key: str, per_second: float, backend: RateBackend) -> RateLimiter:
    """Return the limiter of the key by which a service counts; the back end gets only a digest of both."""
    name = hashlib.sha256(f"{service}\0{key}".encode()).hexdigest()[:32]
    return RateLimiter(backend, name, per_second, service=service)
