"""``rate``: the keys of connections, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_mediaops.http.rate_limit.backends import SqliteBackend
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from tests.unit import book_database, search_cluster, video_platform
from tests.unit.cli.commands import command
from tests.unit.http.rate_limit.keys import keep

# Seconds from one slot to the next of a connection of these tests.
GAP = 1_030.0


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteBackend:
    """The back end of Airflow's configuration."""
    path = tmp_path / "rates.db"
    monkeypatch.setenv("AIRFLOW__MEDIAOPS__RATE_LIMIT_STORE", f"sqlite:///{path}")
    return SqliteBackend(path)


@pytest.fixture
def books(connect: Callable[[str, str], None]) -> Callable[..., str]:
    def set_connection(conn_id: str, key: str = book_database.KEY, **fields: object) -> str:
        own = {"rate_limit_store": "", "requests_per_second": 0.001, "password": key, **fields}
        connect(conn_id, book_database.connection("https://books.example", **own))
        return limiter_for("book database", key, 1.0, SqliteBackend("/nowhere")).name

    return set_connection


def test_connections_with_the_same_key_share_its_rate(backend: SqliteBackend, books: Callable[..., str]) -> None:
    name = books("nightly")
    books("weekly")
    books("other", key="another-key")
    keep(backend, name, reserved=3.5 * GAP)
    done = command("rate", "nightly", "weekly", "other", "nightly", "-o", "json")
    assert (done.code, done.document["problems"]) == (0, [])
    first, second = done.document["keys"]
    assert first["connections"] == [
        {"conn_id": "nightly", "requests_per_second": 0.001},
        {"conn_id": "weekly", "requests_per_second": 0.001},
    ]
    assert (first["fingerprint"], first["state"]) == (name[:12], "reserved")
    assert 2.4 * GAP < first["reserved_seconds"] <= 2.5 * GAP
    assert first["store"] == backend.where
    assert [connection["conn_id"] for connection in second["connections"]] == ["other"]
    assert second["state"] == "unused"


@pytest.mark.parametrize(
    ("kept", "state", "words"),
    [
        ({"paused": 9_000.0, "reserved": 3.5 * GAP}, "paused", ["paused for 2 h", "reserved for 42 min"]),
        ({"paused": 9_000.0, "exhausted": 12_600.0}, "exhausted", ["for another 3 h", "paused for 2 h"]),
        ({"speed": 0.7, "reserved": 3.5 * GAP}, "reserved", ["slowed down to 70%", "reserved for "]),
        ({"speed": 0.7}, "free", ["slowed down to 70%"]),
    ],
)
def test_of_several_states_the_one_that_delays_longest_counts_and_each_is_said(
    backend: SqliteBackend, books: Callable[..., str], kept: dict[str, float], state: str, words: list[str]
) -> None:
    name = books("nightly")
    keep(backend, name, **kept)
    where, titles, row = command("rate", "nightly").output.splitlines()
    assert command("rate", "nightly", "-o", "json").document["keys"][0]["state"] == state
    assert (where, titles.split()[:3]) == (backend.where, ["key", "connections", "rate"])
    assert row.startswith(f"{name[:12]}  nightly      0.001/s")
    assert [word for word in words if word not in row] == []


@pytest.mark.usefixtures("backend")
def test_connections_without_a_rate_are_named(connect: Callable[[str, str], None]) -> None:
    connect("cluster", search_cluster.connection("https://cluster.example"))
    connect("video", video_platform.connection("https://video.example"))
    done = command("rate", "cluster", "video", "-o", "json")
    assert (done.code, done.document["without_rate"]) == (0, ["cluster", "video"])
    assert command("rate", "cluster").output == "Without a rate: cluster.\n"


@pytest.mark.usefixtures("backend")
def test_a_connection_that_cannot_be_used_is_a_problem_and_the_others_are_shown(books: Callable[..., str]) -> None:
    books("nightly")
    books("broken", timeout="soon")
    done = command("rate", "broken", "nightly", "-o", "json")
    assert done.code == 1
    assert len(done.document["keys"]) == 1
    (problem,) = done.document["problems"]
    assert "'broken', field 'timeout'" in problem


@pytest.mark.usefixtures("backend")
def test_a_store_that_cannot_be_used_is_a_problem(books: Callable[..., str], tmp_path: Path) -> None:
    books("nightly")
    (tmp_path / "rates.db").write_bytes(b"no database " * 1000)
    done = command("rate", "nightly", "-o", "json")
    assert done.code == 1
    assert done.document["keys"][0]["state"] == "unreadable"
    assert "cannot be used" in done.document["problems"][0]
    assert "cannot be used" in command("rate", "nightly").output


def test_a_reset_lets_tasks_go_on(backend: SqliteBackend, books: Callable[..., str]) -> None:
    name, other = books("nightly"), books("other", key="another-key")
    for key in (name, other):
        keep(backend, key, exhausted=3_600.0)
    done = command("rate", "nightly", "--reset", "-o", "json")
    assert (done.code, done.document["reset"], done.document["keys"][0]["state"]) == (0, True, "unused")
    assert [backend.read(key)[0] is None for key in (name, other)] == [True, False]
    assert "Reset: " in command("rate", "nightly", "--reset").output


@pytest.mark.usefixtures("backend")
def test_a_reset_of_nothing_is_a_problem(books: Callable[..., str], connect: Callable[[str, str], None]) -> None:
    books("own", rate_limit_store="memory://")
    connect("cluster", search_cluster.connection("https://cluster.example"))
    done = command("rate", "own", "cluster", "--reset", "-o", "json")
    assert (done.code, done.document["reset"]) == (1, False)
    assert done.document["problems"][0].startswith("Nothing was reset: ")


def test_no_key_is_shown(backend: SqliteBackend, books: Callable[..., str]) -> None:
    keep(backend, books("nightly"))
    for form in ("text", "json"):
        done = command("rate", "nightly", "-o", form)
        assert book_database.KEY not in done.output + done.messages
    assert len(command("rate", "nightly", "-o", "json").document["keys"][0]["fingerprint"]) == 12
