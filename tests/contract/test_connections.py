"""Connections made in each of Airflow's ways: all their fields reach the hook, in a task that Airflow runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from urllib.parse import quote, urlencode

import certifi
import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_provider_mediaops.connection_fields import CONNECTION_TYPES
from airflow_provider_mediaops.http.auth import Auth
from tests.contract import dag_runs

COMMON = {
    "timeout": "5, 7",
    "max_attempts": 3,
    "max_wait": 30.5,
    "proxies": {"https": "http://proxy.example.com:3128"},
    "headers": {"X-Team": "media"},
}
#: Every field of each type, as a person would give it.
FULL: dict[str, dict[str, Any]] = {
    "mediaops_video": {
        "host": "video.example.com/api/Base",
        "schema": "https",
        "port": 8443,
        "login": "client-id",
        "password": "client secret / with % odd : signs",
        "extra": {
            **COMMON,
            "auth": "refresh_token",
            "refresh_token": "a long-lived token",
            "token_url": "https://login.example.com/token",
            "scopes": "read write",
            "kind_prefix": "acme",
            "requests_per_second": 4.5,
            "rate_limit_store": "redis://redis.example.com:7000/2",
        },
    },
    "mediaops_cluster": {
        "host": "https://node1.example.com:9200, https://node2.example.com:9201/Search",
        "login": "monitor",
        "password": "cluster password",
        "extra": {
            **COMMON,
            "auth": "basic",
            "ca_cert": certifi.where(),
            "verify": True,
            "cpu_measure": "process",
            "max_report_mb": 64,
        },
    },
    "mediaops_books": {
        "host": "https://books.example.com",
        "password": "rest key",
        "extra": {
            **COMMON,
            "plan": "premium",
            "requests_per_second": 2.5,
            "canary_isbn": "978-0-14-044913-6",
            "rate_limit_store": "redis://redis.example.com:7000/1",
        },
    },
}


# They exclude others of the case, or need files: unit/hooks has cases of each.
EXCLUDED = {
    "mediaops_cluster": {"aws_conn_id", "region", "cloud_id", "client_cert", "client_key", "client_key_password"}
}


class OpenHook(BaseOperator):
    """A task that opens the hook of a connection, and leaves it for the test to look at.

    :param connection_type: the connection's type.
    :param conn_id: its id.
    :param opened: where the hook is left, by the connection's type.
    """

    def __init__(self, *, connection_type: str, conn_id: str, opened: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.connection_type = connection_type
        self.conn_id = conn_id
        self.opened = opened

    def execute(self, context: Any) -> None:
        hook_class = resolve_name(CONNECTION_TYPES[self.connection_type]["hook-class-name"])
        with hook_class(self.conn_id) as hook:
            assert hook.service
            self.opened[self.connection_type] = hook


def opened_by_tasks() -> dict[str, Any]:
    """Let a task for each type open its hook with the connection `<type>_full`."""
    opened: dict[str, Any] = {}
    with DAG("opens_hooks", schedule=None) as dag:
        tasks = [
            OpenHook(task_id=name, connection_type=name, conn_id=f"{name}_full", opened=opened) for name in sorted(FULL)
        ]
    run = dag_runs.run(dag)
    assert run.tasks == {task.task_id: "success" for task in tasks}
    return opened


def make_in_json(env: pytest.MonkeyPatch) -> None:
    for name, connection in FULL.items():
        env.setenv(f"AIRFLOW_CONN_{name.upper()}_FULL", json.dumps({"conn_type": name, **connection}))


def make_in_uri(env: pytest.MonkeyPatch) -> None:
    for name, connection in FULL.items():
        env.setenv(f"AIRFLOW_CONN_{name.upper()}_FULL", uri_of(name, connection))


def uri_of(name: str, connection: Mapping[str, Any]) -> str:
    """Write a connection as an URI, in which the extra fields are texts."""
    texts = {
        field: value if isinstance(value, str) else json.dumps(value) for field, value in connection["extra"].items()
    }
    login, password, host = (quote(connection.get(part, ""), safe="") for part in ("login", "password", "host"))
    port = f":{connection['port']}" if "port" in connection else ""
    scheme = name.replace("_", "-")
    return f"{scheme}://{login}:{password}@{host}{port}/{connection.get('schema', '')}?{urlencode(texts)}"


@pytest.mark.parametrize("name", sorted(FULL))
def test_the_case_has_every_field(name: str) -> None:
    excluded = EXCLUDED.get(name, set())
    assert set(FULL[name]["extra"]) == set(CONNECTION_TYPES[name]["conn-fields"]) - excluded


@pytest.mark.usefixtures("airflow_db")
@pytest.mark.parametrize("make", [make_in_json, make_in_uri])
def test_all_fields_reach_the_hook(make: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    make(monkeypatch)
    opened = opened_by_tasks()
    for hook in opened.values():
        client, transport = hook.service.client, hook.service.transport
        assert (client.retry.max_attempts, client.retry.max_wait) == (3, 30.5)
        assert (transport.connect_timeout, transport.read_timeout) == (5, 7)
        assert transport.proxies == {"https": "http://proxy.example.com:3128"}
        assert transport.headers == {"X-Team": "media"}
    the_video_hook_has_all(opened["mediaops_video"])
    the_cluster_hook_has_all(opened["mediaops_cluster"])
    the_books_hook_has_all(opened["mediaops_books"])


def the_video_hook_has_all(hook: Any) -> None:
    client = hook.service.client
    assert client.base_urls == ("https://video.example.com:8443/api/Base",)
    assert (client.auth.client_id, client.auth.client_secret) == ("client-id", "client secret / with % odd : signs")
    assert client.auth.refresh_token == "a long-lived token"
    assert client.auth.token_url == "https://login.example.com/token"
    assert client.auth.scopes == "read write"
    assert "acme" in vars(hook).values()
    assert client.limiter.per_second == 4.5
    assert client.limiter.backend.where == "redis://redis.example.com:7000/2"


def the_cluster_hook_has_all(hook: Any) -> None:
    client = hook.service.client
    assert client.base_urls == ("https://node1.example.com:9200", "https://node2.example.com:9201/Search")
    assert client.auth == Auth.basic("monitor", "cluster password")
    assert hook.service.transport.verify == certifi.where()
    assert hook.service.transport.max_large_reply_bytes == 64 * 1024 * 1024


def the_books_hook_has_all(hook: Any) -> None:
    client = hook.service.client
    assert client.base_urls == ("https://books.example.com",)
    assert client.auth == Auth("rest key", ("rest key",))
    assert client.limiter.per_second == 2.5
    assert client.limiter.backend.where == "redis://redis.example.com:7000/1"
    assert "9780140449136" in vars(hook).values()


def test_examples_of_the_page_are_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "connections.md").read_text(encoding="utf-8")
    examples = re.findall(r"^export (AIRFLOW_CONN_\w+_DEFAULT)='(.*?)'$", page, re.MULTILINE | re.DOTALL)
    # In JSON and as a URI.
    assert sorted(variable for variable, _ in examples) == sorted(
        2 * [f"AIRFLOW_CONN_{name.upper()}_DEFAULT" for name in FULL]
    )
    for variable, value in examples:
        monkeypatch.setenv(variable, value)
        name = variable.removeprefix("AIRFLOW_CONN_").removesuffix("_DEFAULT").lower()
        hook = resolve_name(CONNECTION_TYPES[name]["hook-class-name"])()
        assert hook.service.client.base_urls[0].startswith("https://")
