"""The state of a key's rate: as plain values for programs, and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.http.rate_limit.schedule import GUARD, from_text, reading_at
from airflow_provider_mediaops.progress import duration

if TYPE_CHECKING:
    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter

#: The address of the store in memory. Each process has its own, which this process cannot read.
PER_PROCESS = "memory://"
# So many digits of a digest distinguish the keys of one store.
_FINGERPRINT_LENGTH = 12
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
    ``unseen`` (another process has it) or ``unreadable`` (with a ``problem``). Of several, the one that delays the next
    request longest counts.
    """
    if limiter.backend.where == PER_PROCESS:
        return {"state": "unseen"}
    try:
        text, now = limiter.backend.read(limiter.name)
    except RateStoreError as error:
        return {"state": "unreadable", "problem": error.message}
    schedule = from_text(text, now) if text else None
    if not schedule:
        return {"state": "unused"}
    # The first free slot is a gap after the last one that is reserved.
    last_slot = schedule.next_free - GUARD / limiter.per_second
    seconds = {
        "exhausted": max(0.0, schedule.blocked_until - now),
        "paused": max(0.0, schedule.at - now),
        "reserved": max(0.0, last_slot - reading_at(schedule, now)) / schedule.speed,
    }
    return {
        "state": next((state for state, left in seconds.items() if left), "free"),
        **{f"{state}_seconds": round(left, 3) for state, left in seconds.items()},
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
    if document["reserved_seconds"]:
        words.append(f"reserved for {_short(document['reserved_seconds'])}")
    if document["rate_factor"] < 1:
        words.append(f"slowed down to {document['rate_factor']:.0%} since the service refused a request")
    return "; ".join(words or ["free"])


def _short(seconds: float) -> str:
    return duration(seconds) if seconds >= 1 else "less than 1 s"
