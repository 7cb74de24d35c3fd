"""Find connections of this provider, their hooks and clients."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow_provider_mediaops.arguments import read_identifier
from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES
from airflow_provider_mediaops.exceptions import InvalidConnectionError

if TYPE_CHECKING:
    from airflow_provider_mediaops.cli.terminal import Terminal
    from airflow_provider_mediaops.hooks.base import ServiceHook
    from airflow_provider_mediaops.http.client import Client


def hook_of(conn_id: str, terminal: Terminal) -> ServiceHook:
    """Return the hook of a connection. Its secrets are hidden in all that is written from now on."""
    connection = _connection_of(read_identifier("CONN_ID", conn_id))
    terminal.hide(filter(None, (connection.password,)))
    described = CONNECTION_TYPES.get(connection.conn_type)
    if described is None:
        from airflow_provider_mediaops.hooks.connection import wrong_type

        raise wrong_type(connection, *CONNECTION_TYPES)
    module, _, name = described["hook-class-name"].rpartition(".")
    hook: ServiceHook = getattr(import_module(module), name)(conn_id).with_connection(connection)
    return hook


def client_of(hook: ServiceHook, terminal: Terminal) -> Client:
    """Return the client of a hook's connection. Its secrets are hidden in all that is written from now on."""
    client = hook.service.client
    terminal.hide(client.secrets)
    return client


def _connection_of(conn_id: str) -> Any:
    from airflow.configuration import ensure_secrets_loaded

    # As Connection.get_connection_from_secrets of Airflow does it, which warns of each type with an underscore. Outside
    # a task, the task's SDK of Airflow 3.1 finds no connection of the database.
    failed = ""
    for backend in ensure_secrets_loaded():
        name = type(backend).__name__
        try:
            if connection := backend.get_connection(conn_id=conn_id):
                return connection
        except PermissionError:
            raise InvalidConnectionError(f"{name} denies access to connection {conn_id!r}.") from None
        except Exception as error:  # noqa: BLE001 - of any client; as in Airflow, the next backend may have it
            failed += f" {name} could not be asked ({type(error).__name__})."
    raise InvalidConnectionError(
        f"There is no connection {conn_id!r} in the environment, a secrets backend or Airflow's database."
        f"{failed} The command airflow connections list shows those of the database."
    )
