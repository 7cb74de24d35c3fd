"""``rate``: show the keys whose rate is shared, and the connections that share them; forget what is kept of a key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cli.connections import hook_of, listed_connections, service_of
from airflow_provider_mediaops.cli.key_rate import PER_PROCESS, fingerprint, state_document, state_in_words
from airflow_provider_mediaops.cli.terminal import Line, Result, TextTable
from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError
from airflow_provider_mediaops.progress import duration

if TYPE_CHECKING:
    import argparse

    from airflow_provider_mediaops.cli.terminal import Part, Terminal
    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter


class _Keys:
    """The keys of connections: each with one of its limiters, and what is said of it."""

    def __init__(self, conn_ids: Iterable[str], terminal: Terminal) -> None:
        self.keys: dict[tuple[str, str], tuple[RateLimiter, dict[str, Any]]] = {}
        self.without_rate: list[str] = []
        self.problems: list[str] = []
        for conn_id in dict.fromkeys(conn_ids):
            try:
                self._add(conn_id, terminal)
            except MediaOpsError as error:
                self.problems.append(error.message)

    def _add(self, conn_id: str, terminal: Terminal) -> None:
        hook = hook_of(conn_id, terminal)
        limiter = service_of(hook, terminal).client.limiter
        if limiter is None:
            self.without_rate.append(conn_id)
            return
        store = limiter.backend.where
        described = {"fingerprint": fingerprint(limiter.name), "store": store, "service": hook.hook_name}
        _, document = self.keys.setdefault((store, limiter.name), (limiter, described | {"connections": []}))
        document["connections"].append({"conn_id": conn_id, "requests_per_second": limiter.per_second})

    def forget(self) -> bool:
        """Forget what is kept of the keys; return whether there was one to forget."""
        self.problems += [f"Connection {conn_id!r} has no rate: nothing to reset." for conn_id in self.without_rate]
        shared = [limiter for limiter, _ in self.keys.values() if limiter.backend.where != PER_PROCESS]
        if len(shared) < len(self.keys):
            self.problems.append(
                "A rate in memory:// is kept by each process on its own: restart the worker or triggerer to reset it."
            )
        for limiter in shared:
            limiter.backend.forget(limiter.name)
        return bool(shared)

    def documents(self) -> list[dict[str, Any]]:
        """Return what is said of each key, and what its store keeps of it."""
        documents = [document | state_document(limiter) for limiter, document in self.keys.values()]
        self.problems += [document["problem"] for document in documents if "problem" in document]
        return documents


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """Show the keys of connections, or of all; forget what is kept of them, if that is asked for."""
    if options.reset and not options.conn_ids:
        raise InvalidArgumentError("--reset needs the connections whose rate is to begin anew: rate CONN_ID --reset.")
    conn_ids, note = (options.conn_ids, None) if options.conn_ids else listed_connections()
    found = _Keys(conn_ids, terminal)
    forgotten = options.reset and found.forget()
    document = {
        "keys": found.documents(),
        "without_rate": found.without_rate,
        "reset": forgotten,
        "problems": list(dict.fromkeys(found.problems)),
        "note": note,
    }
    return Result(document, _parts(document), problem=bool(found.problems))


def _parts(document: Mapping[str, Any]) -> list[Part]:
    parts: list[Part] = []
    stores = dict.fromkeys(key["store"] for key in document["keys"])
    for store in stores:
        rows = [_row(key) for key in document["keys"] if key["store"] == store]
        parts.append(TextTable(("key", "connections", "rate", "now", "last request"), rows, store))
    if not stores:
        parts.append(Line("No connection has a rate."))
    if document["reset"]:
        parts.append(Line("Reset: each of these keys begins anew with its next request.", "good"))
    if document["without_rate"]:
        parts.append(Line(f"Without a rate: {', '.join(document['without_rate'])}."))
    if document["note"]:
        parts.append(Line(f"Only connections of the environment are shown: {document['note']}.", "warning"))
    return [*parts, *(Line(problem, "bad") for problem in document["problems"])]


def _row(key: Mapping[str, Any]) -> list[object]:
    rates = dict.fromkeys(f"{connection['requests_per_second']:g}/s" for connection in key["connections"])
    idle = key.get("idle_seconds")
    return [
        key["fingerprint"],
        ", ".join(connection["conn_id"] for connection in key["connections"]),
        ", ".join(rates),
        state_in_words(key),
        None if idle is None else f"{duration(idle)} ago",
    ]
