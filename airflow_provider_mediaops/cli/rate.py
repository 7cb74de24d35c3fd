"""``rate``: show the keys whose rate is shared, and the connections that share them; forget what is kept of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cli.connections import client_of, hook_of
from airflow_provider_mediaops.cli.terminal import Line, Result, TextTable
from airflow_provider_mediaops.exceptions import MediaOpsError, RateStoreError
from airflow_provider_mediaops.http.rate_limit.schedule import GUARD, from_text, reading_at
from airflow_provider_mediaops.progress import duration

if TYPE_CHECKING:
    import argparse

    from airflow_provider_mediaops.cli.terminal import Part, Terminal
    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter

# The address of the store in memory. Each process has its own, which this process cannot read.
_PER_PROCESS = "memory://"
# So many digits of a digest distinguish the keys of one store.
_FINGERPRINT_LENGTH = 12
_STATES = {
    "unseen": "cannot be seen from here: each process keeps its own, until it is restarted",
    "unused": "free; not used yet, or forgotten",
    "unreadable": "cannot be read",
}


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """Show the keys of connections; forget what is kept of them, if that is asked for."""
    # By the store and the name of the key.
    keys: dict[tuple[str, str], dict[str, Any]] = {}
    without_rate: list[str] = []
    problems: list[str] = []
    was_reset = False
    for conn_id in dict.fromkeys(options.conn_ids):
        try:
            hook = hook_of(conn_id, terminal)
            limiter = client_of(hook, terminal).limiter
        except MediaOpsError as error:
            problems.append(error.message)
            continue
        if limiter is None:
            without_rate.append(conn_id)
            continue
        identity = (limiter.backend.where, limiter.name)
        if identity not in keys:
            if options.reset and limiter.backend.where != _PER_PROCESS:
                limiter.backend.forget(limiter.name)
                was_reset = True
            keys[identity] = {**key_document(limiter), "service": hook.hook_name, "connections": []}
        keys[identity]["connections"].append({"conn_id": conn_id, "requests_per_second": limiter.per_second})
    problems += [key["problem"] for key in keys.values() if "problem" in key]
    if options.reset and not was_reset:
        problems.append("Nothing was reset: none of these connections has a rate that can be seen from here.")
    document = {
        "keys": list(keys.values()),
        "without_rate": without_rate,
        "reset": was_reset,
        "problems": list(dict.fromkeys(problems)),
    }
    return Result(document, _parts(document), problem=bool(problems))


def _parts(document: dict[str, Any]) -> list[Part]:
    parts: list[Part] = []
    for store in dict.fromkeys(key["store"] for key in document["keys"]):
        rows = [_row(key) for key in document["keys"] if key["store"] == store]
        parts.append(TextTable(("key", "connections", "rate", "now", "last request"), rows, store))
    if document["reset"]:
        parts.append(Line("Reset: each of these keys begins anew with its next request.", "good"))
    if document["without_rate"]:
        parts.append(Line(f"Without a rate: {', '.join(document['without_rate'])}."))
    return [*parts, *(Line(problem, "bad") for problem in document["problems"])]


def _row(key: dict[str, Any]) -> list[object]:
    rates = dict.fromkeys(f"{connection['requests_per_second']:g}/s" for connection in key["connections"])
    idle = key.get("idle_seconds")
    return [
        key["fingerprint"],
        ", ".join(connection["conn_id"] for connection in key["connections"]),
        ", ".join(rates),
        state_in_words(key),
        None if idle is None else f"{duration(idle)} ago",
    ]


def key_document(limiter: RateLimiter) -> dict[str, Any]:
    """
    Return the fingerprint of a key, where its rate is kept, and the state of that, in plain values. It may block.

    ``state`` is ``free``, ``reserved``, ``paused``, ``exhausted``, ``unused`` (the store has no schedule of the key),
    ``unseen`` (another process has it) or ``unreadable`` (with a ``problem``). Of several, the one that delays the next
    request longest counts.
    """
    key = {"fingerprint": limiter.name[:_FINGERPRINT_LENGTH], "store": limiter.backend.where}
    if limiter.backend.where == _PER_PROCESS:
        return {**key, "state": "unseen"}
    try:
        text, now = limiter.backend.read(limiter.name)
    except RateStoreError as error:
        return {**key, "state": "unreadable", "problem": error.message}
    schedule = from_text(text, now) if text else None
    if not schedule:
        return {**key, "state": "unused"}
    # The first free slot is a gap after the last one that is reserved.
    last_slot = schedule.next_free - GUARD / limiter.per_second
    seconds = {
        "exhausted": max(0.0, schedule.blocked_until - now),
        "paused": max(0.0, schedule.at - now),
        "reserved": max(0.0, last_slot - reading_at(schedule, now)) / schedule.speed,
    }
    return {
        **key,
        "state": next((state for state, left in seconds.items() if left), "free"),
        **{f"{state}_seconds": round(left, 3) for state, left in seconds.items()},
        "rate_factor": schedule.speed,
        "idle_seconds": round(max(0.0, now - schedule.sent[-1]), 3) if schedule.sent else None,
    }


def state_in_words(document: dict[str, Any]) -> str:
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
