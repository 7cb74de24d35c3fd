"""
The rate of a key: one for all who use it, however many tasks, workers and triggerers they are.

A caller reserves the next free slot and sleeps until it comes; so callers are served in the order in which they asked,
evenly spaced, and none polls. After its wait it asks once more whether the slot still holds, for meanwhile the service
may have said that the limit is reached, or that the quota of the day is used up, to anybody. The schedule of the slots
stands in a store (:func:`store_at`), whose clock counts; a caller that dies in its wait wastes its slot and no more.

Connections that give different rates for one key do not disturb each other's reckoning: after each request the key
rests for as long as the rate of the connection that made it demands.
"""

from __future__ import annotations

import atexit
import hashlib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_provider_mediaops.exceptions import QuotaExceededError, RateLimitedError, RateStoreError
from airflow_provider_mediaops.http.clock import Clock
from airflow_provider_mediaops.http.exchange import Wait
from airflow_provider_mediaops.http.rate_limit.latency import Latency
from airflow_provider_mediaops.http.rate_limit.schedule import (
    NOTHING,
    Delayed,
    ExhaustQuota,
    Granted,
    QuotaExhausted,
    Reserve,
    RestoreQuota,
    SlowDown,
)
from airflow_provider_mediaops.http.rate_limit.stores import MemoryStore, RateStore

if TYPE_CHECKING:
    from airflow_provider_mediaops.exceptions import MediaOpsError
    from airflow_provider_mediaops.http.exchange import Conversation
    from airflow_provider_mediaops.http.rate_limit.schedule import A, Operation

# Slots stand this much further apart than the rate demands, and no second holds more requests than it may even if it is
# this much longer: a request that travels slowly and one that travels fast may not meet in one second at the service.
# What lies between the two is for callers that wake up a little late. Where all of them are late, as after an outage of
# the store, only the second keeps them apart until they have caught up.
_MARGIN, _LONGER = 1.02, 1.018
_SECOND = 1.0
# Requests that are counted, at the most; a faster rate is counted over less than a second.
_COUNTED = 64
# A quota that comes back within this time is waited for.
_SOON = 10.0
# A quota that was used up is asked about again after a day at the latest, whatever the service said.
_DAY = 86_400.0
# Pauses between tries of a store that fails.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Permit:
    """
    Leave to send one request.

    :param go: what the store says of it.
    :param since: when the store was asked, on the clock of this process.
    """

    go: Granted
    since: float


@dataclass(frozen=True, slots=True)
class RateLimiter:
    """
    Gives slots at the rate of a key.

    :param store: where the key's schedule is kept.
    :param name: the schedule's name, which does not tell the key.
    :param per_second: how many requests a second the key may make.
    :param patience: seconds to wait for a store that has worked and fails. One that never worked is an error at once.
    :param respects_quota: whether a quota that is used up stops this caller; False to ask whether it still is.
    :param clock: where time and chance come from, as this process sees them.
    """

    store: RateStore
    name: str
    per_second: float
    patience: float = 60.0
    respects_quota: bool = True
    clock: Clock = field(default_factory=Clock)
    _latency: Latency = field(default_factory=Latency, repr=False, compare=False)

    def acquire(self) -> Conversation[Permit | QuotaExhausted]:
        """
        Wait until a request may be sent.

        :returns: a conversation that ends when it may, or at once where the key's quota is used up.
        :raises RateStoreError: where the store cannot be used; then no request may be sent.
        """
        most = min(max(1, int(self.per_second)), _COUNTED)
        reserve = Reserve(self._gap, most, _LONGER * most / self.per_second)
        while True:
            asked = self.clock.monotonic()
            answer = yield from self._ask(reserve)
            if isinstance(answer, QuotaExhausted):
                if answer.seconds > _SOON:
                    return answer
                yield Wait(answer.seconds, "the reset of the key's quota")
                continue
            if answer.wait > NOTHING:
                yield Wait(answer.wait, "the key's rate")
            if isinstance(answer, Granted):
                return Permit(answer, asked + answer.wait)
            reserve = replace(reserve, held=answer)

    def on_reply(self, permit: Permit) -> Conversation[None]:
        """
        Say that the reply to a request is there. If it took longer than usual, those behind keep their distance.

        :param permit: the permit for the request.
        :returns: a conversation that ends when it is told; a store that cannot be used gives no slots anyway.
        """
        delay = self._latency.delay(self.clock.monotonic() - permit.since)
        if delay:
            yield from self._tell(Delayed(permit.go.at, delay))

    def on_error(self, error: MediaOpsError, permit: Permit | None, longest: float) -> Conversation[None]:
        """
        Take from an error what is about the key, for all who use it: a limit slows down, a spent quota stops.

        :param error: what became of a request, of whatever kind.
        :param permit: the permit for the request, where it is known.
        :param longest: the longest pause in seconds; after that, a request finds out whether the limit still holds.
        :returns: a conversation that ends when it is told; a store that cannot be used gives no slots anyway.
        """
        asked = error.retry_after or 0.0
        if isinstance(error, RateLimitedError):
            slow_down = SlowDown(self._gap, min(asked, longest), permit.go.epoch if permit else None)
            yield from self._tell(slow_down)
        elif isinstance(error, QuotaExceededError):
            yield from self._tell(ExhaustQuota(min(asked, _DAY)))
        elif permit:
            # One without a reply may have come to the service at any time until now.
            yield from self.on_reply(permit)

    def restore_quota(self) -> Conversation[None]:
        """
        Let all callers go on although the quota was used up, because the service answers.

        :returns: a conversation that ends when it is told.
        :raises RateStoreError: where the store cannot be used.
        """
        yield from self._ask(RestoreQuota())

    @property
    def _gap(self) -> float:
        return _MARGIN / self.per_second

    @property
    def _quiet(self) -> float:
        return max(_SECOND * _MARGIN, self._gap)

    def _tell(self, operation: Operation[None]) -> Conversation[None]:
        with suppress(RateStoreError):
            yield from self.store.ask(self.name, operation, self._quiet)

    def _ask(self, operation: Operation[A]) -> Conversation[A]:
        started, waited, pause = self.clock.monotonic(), 0.0, _FIRST_PAUSE
        while True:
            try:
                return (yield from self.store.ask(self.name, operation, self._quiet))
            except RateStoreError as error:
                tried = max(waited, self.clock.monotonic() - started)
                if not self.store.reached or tried + pause > self.patience:
                    raise
                wait = self.clock.uniform(pause / 2, pause)
                yield Wait(wait, error.message)
                waited += wait
                pause = min(pause * 2, _LONGEST_PAUSE)


_stores: dict[str, RateStore] = {}


def store_at(address: str) -> RateStore:
    """
    Give the store that this process shares for an address.

    :param address: ``memory://`` for this process alone; ``sqlite:////folder/file`` for the processes of one machine;
        ``redis://host`` or ``rediss://host`` for those of many.
    :returns: the same store for the same address; nothing is opened before it is used.
    :raises ValueError: for an address of none of these; its text is free of credentials.
    """
    if address not in _stores:
        store = _stores.setdefault(address, _make_store(address))
        atexit.register(store.close)
    return _stores[address]


def _make_store(address: str) -> RateStore:
    scheme, separator, rest = address.partition("://")
    if scheme == "memory" and not rest and separator:
        return MemoryStore()
    if scheme == "sqlite" and separator:
        from airflow_provider_mediaops.http.rate_limit.sqlite_store import SqliteStore

        # As in other addresses of SQLite: three slashes, then the path, which begins with a slash of its own.
        if not rest.startswith("//") or rest.endswith("/"):
            raise ValueError(
                "the path of a SQLite file must be absolute: sqlite:////folder/file.db, with four slashes."
            )
        return SqliteStore(rest[1:])
    if scheme in ("redis", "rediss") and separator:
        from airflow_provider_mediaops.http.rate_limit.redis_store import RedisStore

        return RedisStore(address)
    raise ValueError("it must be memory://, sqlite:////folder/file.db, redis://host or rediss://host.")


def limiter_for(service: str, key: str, per_second: float, store: RateStore) -> RateLimiter:
    """
    Give the limiter of a key.

    :param service: the service's name: keys of different services have nothing to do with each other.
    :param key: the credential that the service counts by; only a digest of it goes into the store.
    :param per_second: the key's rate, in requests a second.
    :param store: where all who use the key keep its schedule.
    :returns: the limiter.
    """
    return RateLimiter(store, hashlib.sha256(f"{service}\0{key}".encode()).hexdigest()[:32], per_second)
