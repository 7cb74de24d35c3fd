"""
The rate limiter of a key, shared by all tasks, workers and triggerers that use the key.

A caller reserves the next free slot and sleeps until it is due. So callers are served in the order in which they asked,
evenly spaced, and none polls. After its sleep it confirms the slot, because meanwhile the service may have replied to
any caller that the rate limit or the quota is reached. The schedule of the slots is kept in a store
(``store_by_address.store_at``), whose clock counts. A caller that is cancelled returns its slot. One that dies wastes
its slot and no more.

Connections with different rates for one key work together: after each request the key rests for as long as the rate of
the connection that made it demands.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import QuotaExceededError, RateLimitedError, RateStoreError
from airflow_provider_mediaops.http.clock import Clock
from airflow_provider_mediaops.http.exchange import Wait
from airflow_provider_mediaops.http.rate_limit.key_state import KeyState
from airflow_provider_mediaops.http.rate_limit.latency import UNNOTICED_SECONDS, Latency
from airflow_provider_mediaops.http.rate_limit.operations import (
    Delayed,
    ExhaustQuota,
    Release,
    Reserve,
    RestoreQuota,
    SlowDown,
)
from airflow_provider_mediaops.http.rate_limit.schedule import (
    LONGEST_PAUSE_SECONDS,
    Granted,
    Overbooked,
    QuotaExhausted,
    Slot,
)

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import MediaOpsError
    from airflow_provider_mediaops.http.exchange import Conversation
    from airflow_provider_mediaops.http.rate_limit.operations import A, Operation
    from airflow_provider_mediaops.http.rate_limit.store_interface import RateStore

# Guard bands: slots are spaced 1.4 % wider than the rate and the window is 1.011 s, which absorbs 11 ms of jitter.
# Requests that fell behind their slots catch up by the difference.
_SPACING, _WINDOW_SECONDS = 1.014, 1.011
_SECOND = 1.0
# The largest number of requests that a window holds; a faster rate is counted over less than a second.
_MAX_IN_WINDOW = 256
# No slot is reserved further ahead than this time or, at a slow rate, this number of slots.
_HORIZON_SECONDS, _MIN_HORIZON_SLOTS = 3600.0, 10
# A quota that is restored within this time is waited for.
_SHORT_QUOTA_SECONDS = 10.0
# Pauses between attempts to use a store that fails.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Permit:
    """
    Permission to send one request.

    :param granted: the store's answer.
    :param since: the time when the store was asked, on the clock of this process.
    :param answered: the time when the store's answer came, on the same clock.
    :param late: the seconds by which it came later than usual.
    """

    granted: Granted
    since: float
    answered: float
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class RateLimiter:
    """
    Grants permits at the rate of a key.

    :param store: keeps the key's schedule.
    :param name: the schedule's name, which does not show the key.
    :param per_second: the rate of the key, in requests a second.
    :param patience_seconds: how long to wait for a store that has worked and fails. One that never worked is an error
        at once.
    :param respects_quota: whether an exhausted quota stops this caller; False to test whether it still is.
    :param clock: the source of time and chance.
    """

    store: RateStore
    name: str
    per_second: float
    patience_seconds: float = 60.0
    respects_quota: bool = True
    clock: Clock = field(default_factory=Clock)
    _latency: Latency = field(default_factory=Latency, repr=False, compare=False)
    _store_latency: Latency = field(default_factory=lambda: Latency(has_work=False), repr=False, compare=False)

    def acquire(self) -> Conversation[Permit | QuotaExhausted]:
        """
        Wait until a request may be sent. A conversation that is closed or stopped while it waits returns its slot.

        :returns: a conversation that ends with a permit, or at once if the key's quota is exhausted.
        :raises RateLimitedError: if the key is booked out for too long; nothing was reserved.
        :raises RateStoreError: if the store cannot be used; then no request may be sent.
        """
        limit = min(max(1, int(self.per_second)), _MAX_IN_WINDOW)
        horizon = max(_HORIZON_SECONDS, _MIN_HORIZON_SLOTS * self._gap)
        reserve = Reserve(self._gap, limit, _WINDOW_SECONDS * limit / self.per_second, horizon)
        while True:
            asked = self.clock.monotonic()
            answer = yield from self._ask(reserve)
            answered = self.clock.monotonic()
            late = self._store_latency.delay(answered - asked)
            if isinstance(answer, Granted):
                return Permit(answer, asked, answered, late)
            if isinstance(answer, Overbooked):
                raise self._overbooked(answer)
            if isinstance(answer, Slot):
                yield from self._wait_for(answer)
                reserve = replace(reserve, held=answer)
            elif answer.seconds > _SHORT_QUOTA_SECONDS:
                return answer
            else:
                yield Wait(answer.seconds, "the reset of the key's quota")

    def on_reply(self, permit: Permit, sent_at: float | None = None) -> Conversation[None]:
        """
        Report that the reply to a request has come. If the request may have been late, later ones are delayed.

        :param permit: the permit for the request.
        :param sent_at: the time when it was sent, on the clock of this process; None if that is not known.
        :returns: a conversation that ends when the store knows. Errors of the store are ignored: it grants nothing.
        """
        delay = self._delay(permit, sent_at, self.clock.monotonic())
        if delay:
            yield from self._report(Delayed(permit.granted.at, delay))

    def _delay(self, permit: Permit, sent_at: float | None, now: float) -> float:
        if sent_at is None or not permit.answered <= sent_at <= now:
            # A late answer of the store shows that this machine was busy before the request was sent.
            return max(permit.late, self._latency.delay(now - permit.since))
        # The time until it was sent is known, so replies that take long and differ do not hide that it was late. This
        # is what keeps requests of a busy machine from being refused then.
        held_up = sent_at - permit.answered
        delay = permit.late + self._latency.delay(now - sent_at, was_connected=True)
        return delay + held_up if held_up > UNNOTICED_SECONDS else delay

    def on_error(self, error: MediaOpsError, permit: Permit | None, longest_seconds: float) -> Conversation[None]:
        """
        Report what an error says about the key, for all who use it: a rate limit slows down, an exhausted quota stops.

        :param error: the error of a request, of any kind.
        :param permit: the permit for the request, if it is known.
        :param longest_seconds: the longest pause; after that, a request tests whether the limit still holds.
        :returns: a conversation that ends when the store knows. Errors of the store are ignored: it grants nothing.
        """
        asked = error.retry_after or 0.0
        if isinstance(error, RateLimitedError):
            epoch = permit.granted.epoch if permit else None
            yield from self._report(SlowDown(self._gap, min(asked, longest_seconds, LONGEST_PAUSE_SECONDS), epoch))
        elif isinstance(error, QuotaExceededError):
            yield from self._report(ExhaustQuota(min(asked, LONGEST_PAUSE_SECONDS)))
        elif permit:
            # A request without a reply may have reached the service at any time until now.
            yield from self.on_reply(permit)

    def restore_quota(self) -> Conversation[None]:
        """
        Let all callers continue although the quota was exhausted, because the service answers.

        :returns: a conversation that ends when the store knows.
        :raises RateStoreError: if the store cannot be used.
        """
        yield from self._ask(RestoreQuota())

    def state(self) -> KeyState | None:
        """
        Read what the key's schedule says. It may block.

        :returns: the state; None if the store has no schedule of the key.
        :raises RateStoreError: if the store cannot be used.
        """
        reading = self.store.read(self.name)
        return reading and KeyState.of(reading.schedule, reading.now, self._gap)

    @property
    def _gap(self) -> float:
        return _SPACING / self.per_second

    @property
    def _cooldown(self) -> float:
        return max(_SECOND * _SPACING, self._gap)

    def _wait_for(self, slot: Slot) -> Conversation[None]:
        try:
            yield Wait(slot.wait, "the key's rate")
        except BaseException:
            # The conversation is closed, or the task is stopped.
            self.store.release(self.name, Release(self._gap, slot), self._cooldown)
            raise

    def _overbooked(self, answer: Overbooked) -> RateLimitedError:
        return RateLimitedError(
            f"So many requests wait for the rate of this key ({self.per_second:g} a second) that the next could be "
            f"sent only in {answer.seconds / 60:.0f} minutes; it was not sent. Run it again later, let fewer tasks "
            "use the key at once, or ask for a higher rate.",
            # Half of the waiting requests are sent by then.
            retry_after=answer.seconds / 2,
        )

    def _report(self, operation: Operation[None]) -> Conversation[None]:
        with suppress(RateStoreError):
            yield from self.store.ask(self.name, operation, self._cooldown)

    def _ask(self, operation: Operation[A]) -> Conversation[A]:
        started, waited, pause = self.clock.monotonic(), 0.0, _FIRST_PAUSE_SECONDS
        while True:
            try:
                return (yield from self.store.ask(self.name, operation, self._cooldown))
            except RateStoreError as error:
                tried = max(waited, self.clock.monotonic() - started)
                if not self.store.reached or tried + pause > self.patience_seconds:
                    raise
                wait = self.clock.uniform(pause / 2, pause)
                yield Wait(wait, error.message)
                waited += wait
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def limiter_for(service: str, key: str, per_second: float, store: RateStore) -> RateLimiter:
    """
    Return the limiter of a key.

    :param service: the service's name: keys of different services are independent.
    :param key: the credential by which the service counts; the store gets only a digest of it.
    :param per_second: the key's rate, in requests a second.
    :param store: the store that all who use the key share.
    :returns: the limiter.
    """
    return RateLimiter(store, hashlib.sha256(f"{service}\0{key}".encode()).hexdigest()[:32], per_second)
