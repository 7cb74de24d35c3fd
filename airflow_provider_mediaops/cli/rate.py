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
    from collections.abc import Iterator, Mapping

    from airflow_provider_mediaops.cli.terminal import Part, Terminal
    from airflow_provider_mediaops.http.rate_limit.backend import RateBackend
    from airflow_provider_mediaops.http.rate_limit.limiter import RateLimiter


@dataclass(slots=True)
class _Keys:
    """The keys of connections, each by one of their limiters, and what cannot be shown of others."""

    terminal: Terminal
    limiters: dict[tuple[str, str], RateLimiter] = field(default_factory=dict)
    documents: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
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
        key = (limiter.backend.where, limiter.name)
        self.limiters.setdefault(key, limiter)
        document = self.documents.setdefault(key, _document(limiter.name, limiter.backend, hook.hook_name))
        document["connections"].append({"conn_id": conn_id, "requests_per_second": limiter.per_second})

    def read(self) -> None:
        """Add what the stores keep of the keys."""
        for key, document in self.documents.items():
            document.update(state_document(self.limiters[key]))
            if "problem" in document:
                self.problems.append(document["problem"])
            rates = {connection["requests_per_second"] for connection in document["connections"]}
            if len(rates) > 1 and "reserved" in document:
                # Its slots lie as far apart as the rate of the connection that reserved them demands.
                document["reserved"] = None

    def others(self) -> Iterator[dict[str, Any]]:
        """Yield the keys of the stores that belong to no connection that is known here."""
        for backend in self._backends().values():
            try:
                for name in backend.names():
                    if (backend.where, name) not in self.limiters and (figures := figures_of(*backend.read(name))):
                        yield _document(name, backend, None) | figures
            except RateStoreError as error:
                self.problems.append(error.message)

    def _backends(self) -> dict[str, RateBackend]:
        from airflow_provider_mediaops.hooks.connection.settings import configured_rate_backend

        backends = {limiter.backend.where: limiter.backend for limiter in self.limiters.values()}
        try:
            backend = configured_rate_backend()
        except MediaOpsError as error:
            self.problems.append(error.message)
        else:
            self.terminal.hide(backend.secrets)
            backends.setdefault(backend.where, backend)
        return backends

    def forget(self, *, yes: bool) -> bool:
        """Forget what is kept of the keys, if that is wanted; return whether it is done."""
        self.problems += [
            f"Connection {conn_id!r} has no rate, so there is nothing to reset." for conn_id in self.without_rate
        ]
        shared = [key for key in self.limiters if key[0] != PER_PROCESS]
        if len(shared) < len(self.limiters):
            self.problems.append(
                "A rate in memory:// is kept by each process on its own: restart the worker or triggerer to reset it."
            )
        names = ", ".join(each["conn_id"] for key in shared for each in self.documents[key]["connections"])
        if not shared or not self.terminal.confirm(f"Forget what is kept of the rate of {names}?", yes=yes):
            return False
        for key in shared:
            self.limiters[key].backend.forget(key[1])
        return True


def _document(name: str, backend: RateBackend, service: str | None) -> dict[str, Any]:
    return {"fingerprint": fingerprint(name), "store": backend.where, "service": service, "connections": []}


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """Show the keys of connections, or of all; forget what is kept of them, if that is asked for."""
    if options.reset and not options.conn_ids:
        raise InvalidArgumentError("--reset needs the connections whose rate is to begin anew: rate CONN_ID --reset.")
    keys = _Keys(terminal)
    conn_ids, note = (options.conn_ids, None) if options.conn_ids else listed_connections()
    for conn_id in dict.fromkeys(conn_ids):
        keys.add(conn_id)
    forgotten = options.reset and keys.forget(yes=options.yes)
    keys.read()
    others = [] if options.conn_ids else list(keys.others())
    document = {
        "keys": [*keys.documents.values(), *others],
        "without_rate": keys.without_rate,
        "reset": forgotten,
        "problems": list(dict.fromkeys(keys.problems)),
        "note": note,
    }
    return Result(document, _parts(document), problem=bool(keys.problems))


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
