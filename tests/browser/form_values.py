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


class Entry:
    """A connection on its way through the form."""

    def __init__(self, page: ConnectionsPage, conn_id: str, kind: str) -> None:
        self._page = page
        self.conn_id = conn_id
        self.kind = kind
        self._labels = {**_STANDARD, **CONNECTION_TYPES[kind]["ui-field-behaviour"]["relabeling"]}
        self._fields: dict[str, Any] = CONNECTION_TYPES[kind]["conn-fields"]
        self._saved: dict[str, Any] = {"extra": {}}

    def add(self, connection: dict[str, Any]) -> None:
        """Make the connection."""
        self._page.begin(self.conn_id, NAMES[self.kind])
        self._write(connection)

    def change(self, connection: dict[str, Any]) -> None:
        """Make it this connection."""
        self._page.edit(self.conn_id)
        self._write(connection)

    def test(self) -> tuple[bool, str]:
        """Press *Test*: see the page."""
        return self._page.test(self.conn_id)

    def _write(self, connection: dict[str, Any]) -> None:
        before, self._saved = self._saved, connection
        extra = _changes(before["extra"], connection["extra"])
        standard = {name: value for name, value in _changes(before, connection).items() if name in self._labels}
        self._page.fill({self._labels[name]: _text(value) for name, value in standard.items()})
        self._page.fill({self._fields[name]["label"]: _text(value) for name, value in extra.items()})
        self._page.save()


def in_sandbox(sandbox: SandboxServer, kind: str) -> dict[str, Any]:
    """Return the connection to a service of the sandbox, with what the form of Airflow 3.3 needs: a port."""
    connection: dict[str, Any] = json.loads(sandbox.connections()[f"AIRFLOW_CONN_{kind.upper()}_DEFAULT"])
    connection["port"] = urlsplit(connection["host"]).port
    return connection


def _changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)}


def _text(value: object) -> str:
    return "" if value is None else str(value)
