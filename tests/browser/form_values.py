"""What is written into the form of a connection, by the labels that people see."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES

if TYPE_CHECKING:
    from airflow_provider_mediaops.sandbox.server import SandboxServer
    from tests.browser.connections_page import ConnectionsPage

NAMES = {kind: form["hook-name"] for kind, form in CONNECTION_TYPES.items()}
_STANDARD = {"host": "Host", "port": "Port", "login": "Login", "password": "Password", "schema": "Schema"}


def add(page: ConnectionsPage, conn_id: str, kind: str, connection: dict[str, Any]) -> None:
    """Make a connection."""
    labels = {**_STANDARD, **CONNECTION_TYPES[kind]["ui-field-behaviour"]["relabeling"]}
    fields: dict[str, Any] = CONNECTION_TYPES[kind]["conn-fields"]
    given = {name: str(value) for name, value in connection.items() if value is not None}
    extra = {name: str(value) for name, value in connection["extra"].items() if value is not None}
    page.begin(conn_id, NAMES[kind])
    page.fill({labels[name]: value for name, value in given.items() if name in labels})
    page.fill({fields[name]["label"]: value for name, value in extra.items()})
    page.save()


def in_sandbox(sandbox: SandboxServer, kind: str) -> dict[str, Any]:
    """Return the connection to a service of the sandbox, with what the form of Airflow 3.3 needs: a port."""
    connection: dict[str, Any] = json.loads(sandbox.connections()[f"AIRFLOW_CONN_{kind.upper()}_DEFAULT"])
    connection["port"] = urlsplit(connection["host"]).port
    return connection
