"""``check``: test a connection, and show its rate, plan, quota and the version of its service."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.cli.connections import client_of, hook_of
from airflow_provider_mediaops.cli.rate import key_document, state_in_words
from airflow_provider_mediaops.cli.terminal import Line, Result, TextTable
from airflow_provider_mediaops.exceptions import MediaOpsError
from airflow_provider_mediaops.progress import rate_in_words

if TYPE_CHECKING:
    import argparse

    from airflow_provider_mediaops.cli.terminal import Part, Terminal


def run(options: argparse.Namespace, terminal: Terminal) -> Result:
    """Test a connection. One that does not work is a problem."""
    hook = hook_of(options.conn_id, terminal)
    found = hook.check()
    client = None
    with suppress(MediaOpsError):
        # If it cannot be made, that is what the check has found.
        client = client_of(hook, terminal)
    limiter = client and client.limiter
    document = {
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
    return Result(document, _parts(document), problem=not found.works)


def _parts(document: dict[str, Any]) -> list[Part]:
    outcome, style = ("passed", "good") if document["works"] else ("failed", "bad")
    quota, rate = document["quota"], document["rate"]
    values: dict[str, object] = {
        "service": document["service"],
        "address": ", ".join(document["addresses"]) or None,
        "version": document["version"],
        "plan": document["plan"],
        "quota left": quota and f"{quota['left']:,} of {quota['total']:,} requests today",
    }
    if rate:
        values |= {
            "rate": rate_in_words(rate["requests_per_second"]),
            "rate now": rate.get("problem") or state_in_words(rate),
            "rate store": rate["store"],
            "key": f"fingerprint {rate['fingerprint']}",
        }
    elif document["addresses"]:
        values["rate"] = "not limited by this connection"
    return [
        Line(f"{document['conn_id']}: the test {outcome}.", style),
        Line(document["message"]),
        TextTable((), [(f"  {name}", value) for name, value in values.items() if value is not None]),
    ]
