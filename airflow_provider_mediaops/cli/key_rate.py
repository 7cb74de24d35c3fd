"""The state of a key's rate: as plain values for programs, and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.exceptions import RateStoreError
from airflow_provider_mediaops.progress import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_mediaops.http.rate_limit.key_state import KeyState
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
    """
    Return the fingerprint of a key, which does not show the key.

    :param name: the name of the key's schedule, a digest of the key.
    """
    return name[:_FINGERPRINT_LENGTH]


def state_document(limiter: RateLimiter) -> dict[str, Any]:
    """
    Read the state of a key. It may block.

    :param limiter: the limiter of the key.
    :returns: plain values. ``state`` is ``free``, ``reserved``, ``paused``, ``exhausted``, ``unused`` (the store has no
        schedule of the key), ``unseen`` (another process has it) or ``unreadable`` (with a ``problem``).
    """
    if limiter.backend.where == PER_PROCESS:
        return {"state": "unseen"}
    try:
        state = limiter.state()
    except RateStoreError as error:
        return {"state": "unreadable", "problem": error.message}
    return figures_of(state) if state else {"state": "unused"}


def figures_of(state: KeyState) -> dict[str, Any]:
    """
    Return the state of a key as plain values, its times in seconds.

    :param state: the state.
    """
    return {
        "state": state.state,
        "reserved": state.reserved,
        "reserved_seconds": round(state.reserved_seconds, 3),
        "paused_seconds": round(state.paused_seconds, 3),
        "exhausted_seconds": round(state.exhausted_seconds, 3),
        "rate_factor": state.rate_factor,
        "idle_seconds": None if state.idle_seconds is None else round(state.idle_seconds, 3),
    }


def state_in_words(document: Mapping[str, Any]) -> str:
    """
    Return the state of a key for people.

    :param document: the state as plain values.
    """
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
