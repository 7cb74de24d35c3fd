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
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_mediaops import metrics
from airflow_provider_mediaops.exceptions import QuotaExceededError, RateLimitedError, RateStoreError
from airflow_provider_mediaops.http.exchange import Blocking, Clock, Wait
from airflow_provider_mediaops.http.rate_limit import schedule
from airflow_provider_mediaops.http.rate_limit.schedule import BookedOut, Granted, Later, QuotaExhausted, Schedule

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import MediaOpsError
    from airflow_provider_mediaops.http.exchange import CallFlow
    from airflow_provider_mediaops.http.rate_limit.backends import RateBackend

T = TypeVar("T")

# A quota that is restored within this time is waited for.
_SHORT_QUOTA_SECONDS = 10.0
# How long to wait for a back end that has worked and fails, and the pauses between attempts.
_PATIENCE_SECONDS, _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 60.0, 0.1, 5.0
# A request that leaves this much later than it was permitted is reported; the guard band absorbs less.
_UNNOTICED_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Permit:
    """Permission to send one request."""

    at: float  # its entry in the key's log of sends
    asked_at: float  # when it was asked for, on the clock of this process


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
        slot: float | None = None
        while True:
            answer, asked_at = yield from self._ask(slot)
            if isinstance(answer, Granted):
                return Permit(answer.at, asked_at)
            if isinstance(answer, BookedOut):
                metrics.count_not_sent(self.service, "rate")
                raise self._booked_out(answer)
            if isinstance(answer, Later):
                slot, word, reason = answer.slot, "rate", "the key's rate"
            elif answer.seconds > _SHORT_QUOTA_SECONDS:
                return answer
            else:
                word, reason = "quota", "the reset of the key's quota"
            yield Wait(answer.seconds, reason)
            metrics.count_wait(self.service, word, answer.seconds)

    def on_sent(self, permit: Permit, sent_at: float | None) -> CallFlow[None]:
        """
        Report when a request left, on the clock of this process. If that was late, later ones keep their distance.

        None means that it may have left at any time until now.
        """
        now = self.clock.monotonic()
        left = sent_at if sent_at is not None and permit.asked_at <= sent_at <= now else now
        if left - permit.asked_at > _UNNOTICED_SECONDS:
            yield from self._report(schedule.sent_late, permit.at, left - permit.asked_at)

    def on_error(self, error: MediaOpsError, permit: Permit | None, longest_seconds: float) -> CallFlow[None]:
        """
        Report what an error says about the key, for all who use it: a rate limit slows down, an exhausted quota stops.

        After ``longest_seconds``, a request tests whether the limit still holds.
        """
        asked = error.retry_after or 0.0
        if isinstance(error, RateLimitedError):
            yield from self._report(schedule.slow_down, permit.at if permit else None, min(asked, longest_seconds))
        elif isinstance(error, QuotaExceededError):
            yield from self._report(schedule.exhaust, asked)

    def restore_quota(self) -> CallFlow[None]:
        """Let all callers continue although the quota was exhausted, because the service answers."""
        yield from self._report(schedule.restore)

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
        """Report something to the schedule. An error is ignored, because a report grants nothing."""
        with suppress(RateStoreError):
            yield Blocking(partial(self._update, lambda state, now: (report(state, now, *figures), None)))

    def _ask(self, slot: float | None) -> CallFlow[tuple[schedule.Answer, float]]:
        """Reserve a slot, or confirm this one; wait for a back end that has worked and fails."""

        def may_send(state: Schedule, now: float) -> tuple[Schedule, schedule.Answer]:
            if slot is None:
                return schedule.reserve(state, now, self.per_second)
            return schedule.confirm(state, now, self.per_second, slot)

        started, waited, pause = self.clock.monotonic(), 0.0, _FIRST_PAUSE_SECONDS
        while True:
            try:
                answer: tuple[schedule.Answer, float] = yield Blocking(partial(self._update, may_send))
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

    def _update(self, question: Callable[[Schedule, float], tuple[Schedule, T]]) -> tuple[T, float]:
        """Put a question to the schedule; return the answer, and the time of the question by this process's clock."""

        def change(text: str | None, now: float) -> tuple[str, T]:
            before = schedule.from_text(text, now) if text else None
            begun = before or schedule.begin(now, self.per_second, at_once=not self.backend.may_lose)
            # A clock that was set back a little stands still.
            after, answer = question(begun, max((now, *begun.sent[-1:])))
            # The same text says that there is nothing to write.
            return text if text and after is before else schedule.to_text(after), answer

        asked_at = self.clock.monotonic()
        return self.backend.update(self.name, change), asked_at


def limiter_for(service: str, key: str, per_second: float, backend: RateBackend) -> RateLimiter:
    """Return the limiter of the key by which a service counts; the back end gets only a digest of both."""
    name = hashlib.sha256(f"{service}\0{key}".encode()).hexdigest()[:32]
    return RateLimiter(backend, name, per_second, service=service)
