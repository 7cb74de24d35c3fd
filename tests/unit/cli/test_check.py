"""``check``: what it shows of connections that work and of those that do not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_mediaops.http.rate_limit.backends import SqliteBackend
from tests.unit import book_database, search_cluster
from tests.unit.cli.commands import command
from tests.unit.http.rate_limit.keys import keep

if TYPE_CHECKING:
    import requests_mock

BOOKS = "https://books.example/pro"
CLUSTER = "https://cluster.example:9200"
QUOTA: dict[str, Any] = {"json": {"plan_limit": {"total": 5000, "left": 4990}}}


@pytest.fixture
def books(connect: Callable[[str, str], None], tmp_path: Path) -> Callable[..., None]:
    def set_connection(**fields: Any) -> None:
        own = {
            "plan": "pro",
            "requests_per_second": 5,
            "rate_limit_store": f"sqlite:///{tmp_path}/rates.db",
            **fields,
        }
        connect("books", book_database.connection(BOOKS, **own))

    set_connection()
    return set_connection


def answer_cluster(requests_mock: requests_mock.Mocker, **root: Any) -> None:
    requests_mock.get(f"{CLUSTER}/_nodes/_local/stats/os,process", json=search_cluster.stats({"a": 1}))
    requests_mock.get(f"{CLUSTER}/_nodes/_local/hot_threads", text=search_cluster.report("a"))
    requests_mock.get(f"{CLUSTER}/", **root)


@pytest.mark.usefixtures("books")
def test_a_key_of_the_book_database(requests_mock: requests_mock.Mocker, tmp_path: Path) -> None:
    requests_mock.get(f"{BOOKS}/key", **QUOTA)
    done = command("check", "books", "--output", "json")
    assert done.code == 0
    document = done.document
    shown = [document[name] for name in ("conn_id", "works", "addresses", "version", "plan")]
    assert shown == ["books", True, [BOOKS], None, "pro"]
    assert document["quota"] == {"left": 4990, "total": 5000}
    rate = document["rate"]
    assert (rate["requests_per_second"], rate["store"]) == (5.0, f"sqlite:///{tmp_path}/rates.db")
    assert (rate["exhausted_seconds"], len(rate["fingerprint"])) == (0, 12)
    # The test itself costs one request, and the check no more.
    assert requests_mock.call_count == 1


@pytest.mark.usefixtures("books")
def test_a_quota_that_is_recorded_as_used_up_is_asked_anew(requests_mock: requests_mock.Mocker, tmp_path: Path) -> None:
    requests_mock.get(f"{BOOKS}/key", json={"plan_limit": {"total": 5000, "left": 0}})
    command("check", "books")
    backend = SqliteBackend(tmp_path / "rates.db")
    with closing(sqlite3.connect(tmp_path / "rates.db")) as file:
        ((name,),) = file.execute("SELECT name FROM rate")
    keep(backend, name, exhausted=5_400.0)
    assert command("check", "books", "--output", "json").document["rate"]["state"] == "exhausted"
    assert "quota used up, for another 1 h " in command("check", "books").output
    requests_mock.get(f"{BOOKS}/key", **QUOTA)
    assert command("check", "books", "--output", "json").document["rate"]["exhausted_seconds"] == 0


def test_a_rate_in_the_memory_of_each_process_cannot_be_seen(
    requests_mock: requests_mock.Mocker, books: Callable[..., None]
) -> None:
    books(rate_limit_store="memory://", requests_per_second=1)
    requests_mock.get(f"{BOOKS}/key", **QUOTA)
    assert command("check", "books", "-o", "json").document["rate"]["state"] == "unseen"
    output = command("check", "books").output
    assert "cannot be seen from here" in output
    assert "1 request a second" in output


def test_a_cluster_has_a_version(requests_mock: requests_mock.Mocker, connect: Callable[[str, str], None]) -> None:
    connect("cluster", search_cluster.connection(CLUSTER))
    answer_cluster(requests_mock, json={"version": {"distribution": "opensearch", "number": "2.19.1"}})
    done = command("check", "cluster", "-o", "json")
    assert (done.code, done.document["version"], done.document["rate"]) == (0, "OpenSearch 2.19.1", None)
    assert "not limited by this connection" in command("check", "cluster").output


def test_a_version_that_is_refused_is_no_fault_of_the_connection(
    requests_mock: requests_mock.Mocker, connect: Callable[[str, str], None]
) -> None:
    connect("cluster", search_cluster.connection(CLUSTER))
    denial = search_cluster.error(403, "security_exception", "no permissions for [cluster:monitor/main]")
    answer_cluster(requests_mock, status_code=403, json=denial)
    done = command("check", "cluster")
    assert done.code == 0
    assert "version" not in done.output


@pytest.mark.parametrize(
    ("field", "said", "left"), [({"timeout": "soon"}, "'timeout'", None), ({"plam": "pro"}, "write 'plan'", 4990)]
)
def test_a_field_that_cannot_be_used_is_a_problem(
    requests_mock: requests_mock.Mocker, books: Callable[..., None], field: dict[str, str], said: str, left: int | None
) -> None:
    books(**field)
    requests_mock.get(f"{BOOKS}/key", **QUOTA)
    done = command("check", "books", "-o", "json")
    assert (done.code, done.document["works"]) == (1, False)
    assert (done.document["quota"] or {"left": None})["left"] == left
    assert (done.document["rate"] is None) is (left is None)
    assert said in done.document["message"]
    assert "the test failed" in command("check", "books").output


def test_secrets_that_a_service_echoes_are_hidden(
    requests_mock: requests_mock.Mocker, connect: Callable[[str, str], None]
) -> None:
    connection = json.loads(search_cluster.connection(CLUSTER, login="me", password="pa55-w0rd-1"))
    connection["extra"]["headers"] = {"X-Api-Key": "h3ader-s3cr3t"}
    connect("cluster", json.dumps(connection))
    answer_cluster(requests_mock, json={"version": {"distribution": "pa55-w0rd-1", "number": "h3ader-s3cr3t"}})
    for form in ("text", "json"):
        done = command("check", "cluster", "-o", form)
        assert "*** ***" in done.output
        assert not [secret for secret in ("pa55", "s3cr3t") if secret in done.output + done.messages]


@pytest.mark.parametrize(
    ("connection", "words"),
    [
        (None, ["There is no connection 'some'", "airflow connections list"]),
        (
            '{"conn_type": "mediaops_books", "password": "s3cr3t',
            ["EnvironmentVariablesBackend could not be asked (JSONDecodeError)"],
        ),
        ("mediaops_books://:s3cr3t-word@books.example", ["A scheme has no underscore: write", "mediaops-books://"]),
        ('{"conn_type": "http", "host": "web.example", "password": "s3cr3t-word"}', ["is of type 'http'"]),
    ],
)
def test_a_connection_that_cannot_be_used_is_named_without_a_secret(
    connect: Callable[[str, str], None], connection: str | None, words: list[str]
) -> None:
    if connection:
        connect("some", connection)
    done = command("check", "some", "-o", "json")
    assert (done.code, done.output) == (1, "")
    assert [word for word in words if word not in done.messages] == []
    assert "s3cr3t" not in done.messages


def test_a_backend_that_denies_is_not_passed_over(
    connect: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Vault:
        def get_connection(self, conn_id: str) -> None:
            raise PermissionError("s3cr3t path")

    connect("books", book_database.connection(BOOKS))
    monkeypatch.setattr("airflow.configuration.ensure_secrets_loaded", lambda: [Vault()])
    done = command("check", "books")
    assert (done.code, done.messages) == (1, "check: Vault denies access to connection 'books'.\n")


def test_no_id_is_wrong_use() -> None:
    assert command("check", " ").code == 2
