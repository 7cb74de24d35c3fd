"""``check``: test a connection, and show its rate, plan, quota and the version of its service."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cli.connections import hook_of, service_of
from airflow_provider_mediaops.cli.rate import key_document, state_in_words
from airflow_provider_mediaops.cli.terminal import Line, Result, TextTable
from airflow_provider_mediaops.exceptions import MediaOpsError

if TYPE_CHECKING:
    import argparse

    from airflow_provider_mediaops.cli.terminal import Part, Terminal
    from airflow_provider_mediaops.hooks.base import ConnectionCheck, Service, ServiceHook


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """Test a connection. One that does not work is a problem."""
    hook = hook_of(options.conn_id, terminal)
    found = hook.check()
    service = None
    with suppress(MediaOpsError):
        # If it cannot be made, that is what the check has found.
        service = service_of(hook, terminal)
    document = _document(hook, found, service)
    return Result(document, _parts(document), problem=not found.works)


def _document(hook: ServiceHook, found: ConnectionCheck, service: Service | None) -> dict[str, Any]:
    client = service and service.client
    limiter = client and client.limiter
    return {
        "conn_id": hook.conn_id,
        "conn_type": hook.conn_type,
        "service": hook.hook_name,
        "works": found.works,
        "message": found.message,
        "addresses": list(client.base_urls) if client else [],
        "version": hook.version() if found.works else None,
        "plan": getattr(hook, "plan", None) if client else None,
        "quota": found.quota and {"left": found.quota.left, "total": found.quota.total},
        "rate": limiter and {"requests_per_second": limiter.per_second, **key_document(limiter)},
    }


def _parts(document: Mapping[str, Any]) -> list[Part]:
    conn_id = document["conn_id"]
    outcome = (
        Line(f"{conn_id}: the test passed.", "good")
        if document["works"]
        else Line(f"{conn_id}: the test failed.", "bad")
    )
    quota = document["quota"]
    values: dict[str, object] = {
        "service": document["service"],
        "address": ", ".join(document["addresses"]) or None,
        "version": document["version"],
        "plan": document["plan"],
        "quota left": quota and f"{quota['left']:,} of {quota['total']:,} requests today",
        **(_rate(document["rate"]) if document["addresses"] else {}),
    }
    rows = [(f"  {name}", value) for name, value in values.items() if value is not None]
    return [outcome, Line(document["message"]), TextTable((), rows)]


def _rate(rate: Mapping[str, Any] | None) -> dict[str, object]:
    if rate is None:
        return {"rate": "not limited by this connection"}
    return {
        "rate": f"{rate['requests_per_second']:g} requests a second",
        "rate now": rate.get("problem") or state_in_words(rate),
        "rate store": rate["store"],
        "key": f"fingerprint {rate['fingerprint']}",
    }
