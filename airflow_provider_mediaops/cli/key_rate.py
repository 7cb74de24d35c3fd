"""The state of a key's rate: as plain values for programs, and in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.schedule import GUARD, from_text, reading_at
from airflow_provider_mediaops.progress import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter

#: The address of the store in memory. Each process has its own, which this process cannot read.
PER_PROCESS = "memory://"
# So many digits of a digest distinguish the keys of one store.
_FINGERPRINT_LENGTH = 12
# The share of a slot by which rounding may move its time.
_ROUNDING = 0.001
_STATES = {
    "unseen": "cannot be seen from here: each process keeps its own",
    "unused": "free; not used yet, or forgotten",
    "unreadable": "cannot be read",
}


def fingerprint(name: str) -> str:
    """Return the fingerprint of a key, which does not show the key."""
    return name[:_FINGERPRINT_LENGTH]


def state_document(limiter: RateLimiter) -> dict[str, Any]:
    """
    Read the state of a key, in plain values. It may block.

    ``state`` is ``free``, ``reserved``, ``paused``, ``exhausted``, ``unused`` (the store has no schedule of the key),
    ``unseen`` (another process has it) or ``unreadable`` (with a ``problem``).
    """
    if limiter.backend.where == PER_PROCESS:
        return {"state": "unseen"}
    try:
        figures = figures_of(*limiter.backend.read(limiter.name), limiter.per_second)
    except RateStoreError as error:
        return {"state": "unreadable", "problem": error.message}
    return figures or {"state": "unused"}


def figures_of(text: str | None, now: float, rate: float | None = None) -> dict[str, Any] | None:
    """
    Read the state of a key off the text that a back end keeps of it; None if there is none, or a damaged one.

    Of several states, the one that delays the next request longest counts. The rate need not be known.
    """
    schedule = from_text(text, now) if text else None
    if not schedule:
        return None
    exhausted, paused = max(0.0, schedule.blocked_until - now), max(0.0, schedule.at - now)
    ahead = max(0.0, schedule.next_free - reading_at(schedule, now))
    # The last slot is a gap before the first free one. A slot that was due before now was used, or passed.
    reserved = None if rate is None else math.floor(ahead * rate / GUARD + _ROUNDING)
    is_reserved = ahead if reserved is None else reserved
    return {
        "state": "exhausted" if exhausted else "paused" if paused else "reserved" if is_reserved else "free",
        "reserved": reserved,
        "reserved_seconds": round(ahead / schedule.speed, 3),
        "paused_seconds": round(paused, 3),
        "exhausted_seconds": round(exhausted, 3),
        "rate_factor": schedule.speed,
        "idle_seconds": round(max(0.0, now - schedule.sent[-1]), 3) if schedule.sent else None,
    }


def state_in_words(document: Mapping[str, Any]) -> str:
    """Return the state of a key for people."""
    state = document["state"]
    if state in _STATES:
        return _STATES[state]
    words = []
    if document["exhausted_seconds"]:
        words.append(f"quota used up, for another {duration(document['exhausted_seconds'])}")
    if document["paused_seconds"]:
        words.append(f"paused for {_short(document['paused_seconds'])}")
    reserved = document["reserved"]
    if reserved:
        requests = "request" if reserved == 1 else "requests"
        words.append(f"{reserved:,} {requests} reserved, for {_short(document['reserved_seconds'])}")
    elif reserved is None and document["reserved_seconds"]:
        words.append(f"reserved for {_short(document['reserved_seconds'])}")
    if document["rate_factor"] < 1:
        words.append(f"slowed down to {document['rate_factor']:.0%} since the service refused a request")
    return "; ".join(words or ["free"])


def _short(seconds: float) -> str:
    return duration(seconds) if seconds >= 1 else "less than 1 s"
