"""``rate``: show the keys whose rate is shared, and the connections that share them; forget what is kept of a key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cli.connections import hook_of, listed_connections, service_of
from airflow_provider_mediaops.cli.key_rate import PER_PROCESS, figures_of, fingerprint, state_document, state_in_words
from airflow_provider_mediaops.cli.terminal import Line, Result, TextTable
from airflow_provider_mediaops.exceptions import InvalidArgumentError, MediaOpsError, RateStoreError
from airflow_provider_mediaops.progress import duration

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_provider_mediaops.cli.terminal import Part, Terminal
    from airflow_provider_mediaops.http.rate_limit.backend import RateBackend
    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter


@dataclass(slots=True)
class _Key:
    """A key, by the limiter of one of the connections that share it."""

    limiter: RateLimiter
    service: str
    rates: dict[str, float] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        state = state_document(self.limiter)
        if len(set(self.rates.values())) > 1 and "reserved" in state:
            # Its slots lie as far apart as the rate of the connection that reserved them demands.
            state["reserved"] = None
        connections = [
            {"conn_id": conn_id, "requests_per_second": rate} for conn_id, rate in sorted(self.rates.items())
        ]
        return _document(self.limiter.name, self.limiter.backend, self.service, connections, state)


@dataclass(slots=True)
class _Keys:
    """The keys of connections, and what cannot be shown of others."""

    terminal: Terminal
    by_name: dict[tuple[str, str], _Key] = field(default_factory=dict)
    without_rate: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, conn_id: str) -> None:
        try:
            hook = hook_of(conn_id, self.terminal)
            limiter = service_of(hook, self.terminal).client.limiter
        except MediaOpsError as error:
            self.problems.append(error.message)
            return
        if limiter is None:
            self.without_rate.append(conn_id)
            return
        key = self.by_name.setdefault((limiter.backend.where, limiter.name), _Key(limiter, hook.hook_name))
        key.rates[conn_id] = limiter.per_second

    def others(self) -> Iterator[dict[str, Any]]:
        """Yield the keys of the stores that belong to no connection that is known here."""
        for backend in self._backends():
            try:
                for name in backend.names():
                    if (backend.where, name) not in self.by_name and (figures := figures_of(*backend.read(name))):
                        yield _document(name, backend, None, [], figures)
            except RateStoreError as error:
                self.problems.append(error.message)

    def _backends(self) -> Iterable[RateBackend]:
        from airflow_provider_mediaops.hooks.connection.settings import configured_rate_backend

        backends = {key.limiter.backend.where: key.limiter.backend for key in self.by_name.values()}
        try:
            backend = configured_rate_backend()
        except MediaOpsError as error:
            self.problems.append(error.message)
        else:
            self.terminal.hide(backend.secrets)
            backends.setdefault(backend.where, backend)
        return backends.values()


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """Show the keys of connections, or of all; forget what is kept of them, if that is asked for."""
    if options.reset and not options.conn_ids:
        raise InvalidArgumentError("--reset needs the connections whose rate is to begin anew: rate CONN_ID --reset.")
    keys = _Keys(terminal)
    listed = None if options.conn_ids else listed_connections()
    for conn_id in listed.ids if listed else dict.fromkeys(options.conn_ids):
        keys.add(conn_id)
    note = listed and listed.problem
    forgotten = options.reset and _forget(keys, terminal, yes=options.yes)
    documents = [key.document() for key in keys.by_name.values()]
    if listed:
        documents += keys.others()
    keys.problems += [document["problem"] for document in documents if document.get("problem")]
    document = {
        "keys": documents,
        "without_rate": keys.without_rate,
        "reset": forgotten,
        "problems": list(dict.fromkeys(keys.problems)),
        "note": note,
    }
    return Result(document, _parts(document), problem=bool(keys.problems))


def _forget(keys: _Keys, terminal: Terminal, *, yes: bool) -> bool:
    keys.problems += [
        f"Connection {conn_id!r} has no rate, so there is nothing to reset." for conn_id in keys.without_rate
    ]
    shared = [key for key in keys.by_name.values() if key.limiter.backend.where != PER_PROCESS]
    if len(shared) < len(keys.by_name):
        keys.problems.append(
            "A rate in memory:// is kept by each process on its own: restart the worker or triggerer to reset it."
        )
    names = ", ".join(conn_id for key in shared for conn_id in key.rates)
    if not shared or not terminal.confirm(f"Forget what is kept of the rate of {names}?", yes=yes):
        return False
    for key in shared:
        key.limiter.backend.forget(key.limiter.name)
    return True


def _document(
    name: str, backend: RateBackend, service: str | None, connections: list[dict[str, Any]], state: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "fingerprint": fingerprint(name),
        "store": backend.where,
        "service": service,
        "connections": connections,
        **state,
    }


def _parts(document: Mapping[str, Any]) -> list[Part]:
    parts: list[Part] = []
    stores = dict.fromkeys(key["store"] for key in document["keys"])
    for store in stores:
        rows = [_row(key) for key in document["keys"] if key["store"] == store]
        parts.append(TextTable(("key", "connections", "rate", "now", "last request"), rows, store))
    if not stores:
        parts.append(Line("No connection has a rate, and no store holds a key."))
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
        ", ".join(connection["conn_id"] for connection in key["connections"]) or None,
        ", ".join(rates) or None,
        state_in_words(key),
        None if idle is None else f"{duration(idle)} ago",
    ]
