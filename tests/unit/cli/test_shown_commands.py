"""The outputs of commands that the documentation shows are real ones."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_mediaops.http.rate_limit import backend as backends
from airflow_provider_mediaops.http.rate_limit.limiter import limiter_for
from airflow_provider_mediaops.http.rate_limit.sqlite_backend import SqliteBackend
from scripts import shown_code
from tests.unit.cli.commands import Ended, command
from tests.unit.http.rate_limit.keys import keep

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests_mock

ROOT = Path(__file__).parents[3]
SNIPPETS = ROOT / "docs" / "snippets" / "command_line"
REPORT = ROOT / "tests" / "data" / "hot_threads" / "opensearch-3.8.0-cpu.txt"
STORE = "sqlite:////opt/airflow/mediaops_rate_limits.db"
BOOKS = "https://books.example.com/pro"
KEY = "key-of-the-tests"
DAY = 86_400


@pytest.fixture
def use_backend(monkeypatch: pytest.MonkeyPatch) -> Callable[[SqliteBackend], None]:
    """Have a back end of the test as that of Airflow's configuration."""

    def use(backend: SqliteBackend) -> None:
        backend.where = STORE
        monkeypatch.setitem(backends._backends, STORE, backend)  # noqa: SLF001 - the address is not this machine's
        monkeypatch.setenv("AIRFLOW__MEDIAOPS__RATE_LIMIT_STORE", STORE)
        monkeypatch.setattr("airflow_provider_mediaops.cli.connections._stored_ids", set)

    return use


@pytest.fixture
def used(use_backend: Callable[[SqliteBackend], None], tmp_path: Path) -> None:
    """A back end that knows the key, so that no request has to wait."""
    backend = SqliteBackend(tmp_path / "rates.db")
    use_backend(backend)
    keep(backend, limiter_for("book database", KEY, 5.0, backend).name)


def books(plan: str = "pro", key: str = KEY, **extra: object) -> str:
    described = {"conn_type": "mediaops_books", "host": BOOKS, "password": key, "extra": {"plan": plan, **extra}}
    return json.dumps(described)


def check_shown(name: str, code: int, hide: Callable[[str], str] = str) -> None:
    typed, _, shown = (SNIPPETS / f"{name}.txt").read_text(encoding="utf-8").partition("\n")
    ended: Ended = command(*map(hide, typed.removeprefix("$ airflow mediaops ").split()))
    assert (ended.code, _aligned(hide(shown)), ended.messages) == (code, _aligned(ended.output), "")


def _aligned(text: str) -> str:
    # A column is as wide as its longest path, which is another in a test.
    return re.sub(r" {2,}", "  ", text)


@pytest.mark.usefixtures("used")
def test_a_check(requests_mock: requests_mock.Mocker, connect: Callable[[str, str], None]) -> None:
    connect("mediaops_books_default", books())
    requests_mock.get(f"{BOOKS}/key", json={"plan_limit": {"total": 15_000, "left": 12_345}})
    check_shown("check", 0)


@pytest.mark.usefixtures("used")
def test_a_check_that_fails(requests_mock: requests_mock.Mocker, connect: Callable[[str, str], None]) -> None:
    connect("mediaops_books_default", books())
    requests_mock.get(f"{BOOKS}/key", status_code=403, json={"message": "Forbidden"})
    requests_mock.get(f"{BOOKS}/book/9780140449136", status_code=403, json={"message": "Forbidden"})
    check_shown("check_failed", 1)


def test_rates(
    use_backend: Callable[[SqliteBackend], None], tmp_path: Path, connect: Callable[[str, str], None]
) -> None:
    connect("mediaops_books_default", books())
    connect("books_nightly", books())
    connect("books_premium", books("premium", "another-key"))
    cluster = {"conn_type": "mediaops_cluster", "host": "https://search.example.com:9200"}
    connect("mediaops_cluster_default", json.dumps(cluster))
    backend = SqliteBackend(tmp_path / "rates.db", clock=lambda: 1_000_000.0)
    use_backend(backend)
    keys = (KEY, "another-key", "third")
    shared, spent, other = (limiter_for("book database", key, 5.0, backend).name for key in keys)
    keep(backend, shared, reserved=8.04, idle=0.01)
    keep(backend, spent, exhausted=9_002.0, idle=600.0)
    keep(backend, other, idle=600.0)
    check_shown("rate", 0)


@pytest.mark.parametrize(("name", "code"), [("hot_threads", 0), ("isbn", 1)])
def test_files_are_shown_as_they_are_read(
    name: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(REPORT, tmp_path / "hot_threads.txt")
    shutil.copy(SNIPPETS / "orders.txt", tmp_path / "orders.txt")
    monkeypatch.chdir(tmp_path)
    check_shown(name, code)


def test_the_page_shows_all_of_them() -> None:
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")

    assert set(shown_code.files_of(page)) == {f"docs/snippets/command_line/{path.name}" for path in SNIPPETS.iterdir()}
